"""`ctx.pipe_to_self`: an actor goes on with other messages while something is awaited, and hears of its end."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, ExitKind, MailboxConfig, MailboxFull
from greenroom.testing import TestProbe


class Piper(Actor[Any, Any]):
    """Does what a function of its context says; everything else, as what is piped, it hands on."""

    def __init__(self, to: ActorRef[Any, Any] | None = None) -> None:
        self.to = to

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self.ctx)
        if self.to is not None:
            self.to.tell(message)
        return None


class AsyncPiper(Piper):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)


pipers = pytest.mark.parametrize("piper", [Piper, AsyncPiper])


async def give(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


async def fail(error: BaseException) -> Any:
    await asyncio.sleep(0)
    raise error


@pipers
async def test_the_result_comes_as_a_message(system: ActorSystem, piper: type[Piper]) -> None:
    probe = TestProbe(system)
    ref = system.spawn(piper, probe.ref)
    await ref.ask(lambda ctx: ctx.pipe_to_self(give("done")) and None)
    await probe.expect("done")
    await ref.ask(lambda ctx: ctx.pipe_to_self(give(3), lambda number: number * 2) and None)
    await probe.expect(6)
    await ref.ask(lambda ctx: ctx.pipe_to_self(give(None), map=lambda nothing: "nothing came") and None)
    await probe.expect("nothing came")
    await ref.ask(lambda ctx: ctx.pipe_to_self(give(None)) and None)
    assert await probe.receive() is None
    await probe.expect_no()


async def test_the_actor_handles_other_messages_meanwhile(system: ActorSystem) -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    probe = TestProbe(system)
    ref = system.spawn(Piper, probe.ref)
    await ref.ask(lambda ctx: ctx.pipe_to_self(future) and None)
    ref << "first"
    await probe.expect("first")
    await probe.expect_no()
    future.set_result("second")
    await probe.expect("second")


async def test_coroutines_futures_tasks_and_asks_can_be_piped(system: ActorSystem) -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.set_result("future")
    task = asyncio.create_task(give("task"))
    other = system.spawn(lambda ctx, message: message)
    probe = TestProbe(system)
    ref = system.spawn(Piper, probe.ref)

    def pipe_all(ctx: Context) -> None:
        ctx.pipe_to_self(give("coroutine"))
        ctx.pipe_to_self(future)
        ctx.pipe_to_self(task)
        ctx.pipe_to_self(other.ask("asked"))

    await ref.ask(pipe_all)
    assert sorted([await probe.receive() for _ in range(4)]) == ["asked", "coroutine", "future", "task"]


async def test_an_actor_may_ask_itself_through_a_pipe(system: ActorSystem) -> None:  # what AskDeadlock recommends
    probe = TestProbe(system)
    ref = system.spawn(Piper, probe.ref)
    await ref.ask(lambda ctx: ctx.pipe_to_self(ctx.self.ask(lambda ctx: "own answer")) and None)
    await probe.expect("own answer")


async def test_a_hook_may_pipe(system: ActorSystem) -> None:
    class Loading(Piper):
        def pre_start(self) -> None:
            self.ctx.pipe_to_self(give("loaded"))

    probe = TestProbe(system)
    system.spawn(Loading, probe.ref)
    await probe.expect("loaded")


@pytest.mark.parametrize("where", ["awaitable", "map", "on_error"])
@pipers
async def test_what_is_raised_on_the_way_fails_the_actor(system: ActorSystem, piper: type[Piper], where: str) -> None:
    error = LookupError(where)

    def complain(value: Any) -> Any:
        raise error

    def pipe(ctx: Context) -> None:
        if where == "awaitable":
            ctx.pipe_to_self(fail(error))
        elif where == "map":
            ctx.pipe_to_self(give(1), complain)
        else:
            ctx.pipe_to_self(fail(ValueError("first")), on_error=complain)

    probe = TestProbe(system)
    ref = system.spawn(piper)
    await probe.watch(ref)
    await ref.ask(pipe)
    notice = await probe.expect_terminated(ref)
    assert notice.cause is error
    assert notice.reason.kind is ExitKind.FAIL


@pytest.mark.parametrize("where", ["awaitable", "map"])
@pipers
async def test_on_error_makes_a_message_of_what_is_raised(system: ActorSystem, piper: type[Piper], where: str) -> None:
    error = LookupError(where)

    def complain(value: Any) -> Any:
        raise error

    def pipe(ctx: Context) -> None:
        if where == "awaitable":
            ctx.pipe_to_self(fail(error), on_error=lambda exc: ("failed", exc))
        else:
            ctx.pipe_to_self(give(1), complain, on_error=lambda exc: ("failed", exc))

    probe = TestProbe(system)
    ref = system.spawn(piper, probe.ref)
    await ref.ask(pipe)
    await probe.expect(("failed", error))


@pytest.mark.parametrize("told", [False, True])
async def test_a_cancellation_nobody_asked_for_is_a_failure_too(system: ActorSystem, told: bool) -> None:
    """`If it raises, on_error makes a message of that; without on_error the actor fails with it`: never silence."""
    probe = TestProbe(system)
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ref = system.spawn(Piper)
    await probe.watch(ref)

    def pipe(ctx: Context) -> None:
        ctx.pipe_to_self(future, on_error=(lambda exc: probe.ref.tell(exc)) if told else None)

    await ref.ask(pipe)
    await asyncio.sleep(0)  # it waits now
    future.cancel()
    if told:
        assert isinstance(await probe.receive(), asyncio.CancelledError)
    else:
        notice = await probe.expect_terminated(ref)
        assert isinstance(notice.cause, asyncio.CancelledError)
        assert notice.reason.kind is ExitKind.FAIL


@pytest.mark.parametrize("ending", ["stop", "kill", "fail"])
async def test_what_is_under_way_when_the_actor_ends_is_cancelled(system: ActorSystem, ending: str) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def wait_for_ever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    ref = system.spawn(Piper)
    await ref.ask(lambda ctx: ctx.pipe_to_self(wait_for_ever()) and None)
    await begun.wait()
    if ending == "stop":
        ref.stop()
    elif ending == "kill":
        ref.kill()
    else:
        ref.fail(ValueError("x"))
    await ref.terminated()
    await cancelled.wait()
    assert system.dead_letters.count == 0


async def test_an_on_error_is_not_told_of_the_actors_own_end(system: ActorSystem) -> None:
    errors: list[BaseException] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ref = system.spawn(Piper)
    await ref.ask(lambda ctx: ctx.pipe_to_self(future, on_error=errors.append) and None)
    ref.stop()
    await ref.terminated()
    await system.settle()
    assert future.cancelled()
    assert errors == []


@pytest.mark.parametrize("ending", ["stop", "kill", "raise"])
async def test_a_pipe_that_never_got_to_run_leaves_no_coroutine_behind(
    system: ActorSystem, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An un-awaited coroutine would complain, and fail this test."""

    def pipe_and_end(ctx: Context) -> None:
        ctx.pipe_to_self(give("never"))
        if ending == "stop":
            ctx.stop()
        elif ending == "kill":
            ctx.self.kill()
        else:
            raise LookupError("no more")

    ref = system.spawn(Piper)
    ref.tell(pipe_and_end)
    await ref.terminated()
    caplog.clear()  # of tracebacks that know the coroutine
    gc.collect()


async def test_a_result_without_room_is_never_lost_in_silence(system: ActorSystem) -> None:
    """The mailbox refuses, and there is no sender to be told but the actor itself."""
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    held, gate = asyncio.Event(), asyncio.Event()
    ref = system.spawn(Piper, mailbox=MailboxConfig(capacity=1))

    async def hold() -> None:
        held.set()
        await gate.wait()

    await ref.ask(lambda ctx: ctx.pipe_to_self(future) and None)
    ref.tell(lambda ctx: hold())
    await held.wait()
    ref.tell("fills it")
    future.set_result("no room")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gate.set()
    reason = await ref.terminated()
    assert isinstance(reason.cause, MailboxFull)
    assert reason.cause.message == "no room"
