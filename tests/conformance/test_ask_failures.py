"""What an asker gets when a handler raises, and what becomes of replies that nobody waits for (cases 27-29)."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    Asked,
    AskTimeout,
    Behaviors,
    Context,
    ExitKind,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Reply,
)
from greenroom.testing import TestProbe
from tests.conformance.relations import Panic
from tests.conformance.sending import ANYWHERE, Keeper, Ref, ask_from, in_thread, outcome, until
from tests.conftest import Play
from tests.gates import standstill

BAD = ValueError("bad")


def raises(ctx: Context, cause: BaseException) -> Any:
    raise cause.with_traceback(None)


async def raises_later(ctx: Context, cause: BaseException) -> Any:
    await asyncio.sleep(0)
    raise cause.with_traceback(None)


async def raises_at_once(ctx: Context, cause: BaseException) -> Any:
    raise cause.with_traceback(None)


def fails(ctx: Context, cause: BaseException) -> Any:
    return Behaviors.failed(cause.with_traceback(None))


HANDLERS = pytest.mark.parametrize("handler", [raises, raises_later, raises_at_once, fails])


@HANDLERS
@pytest.mark.parametrize("where", ANYWHERE)
async def test_the_asker_gets_what_the_handler_raised(system: ActorSystem, where: str, handler: Any) -> None:  # case 27
    ref: Ref = system.spawn(handler)
    probe = TestProbe(system)
    await probe.watch(ref)
    assert await ask_from(where, system, ref, BAD, timeout=None) is BAD
    notice = await probe.expect_terminated(ref)  # it failed, as if it had not been asked
    assert (notice.reason.kind, notice.cause) == (ExitKind.FAIL, BAD)
    assert system.ledger(ref).failed == 1


@pytest.mark.parametrize("cause", [TimeoutError("mine"), AskTimeout("somebody", 1.0), asyncio.InvalidStateError()])
@pytest.mark.parametrize("where", ANYWHERE)
async def test_an_exception_that_looks_like_ours_is_the_handlers_own(
    system: ActorSystem, where: str, cause: Exception
) -> None:
    assert await ask_from(where, system, system.spawn(raises), cause, timeout=None) is cause


@pytest.mark.parametrize("way", ["raised", "failed", "fail_reply", "deferred"])
@pytest.mark.parametrize("where", ANYWHERE)
async def test_even_a_stop_iteration_is_an_error_to_the_asker(system: ActorSystem, where: str, way: str) -> None:
    # case 27
    # `next(iter(()))` in a handler: no future takes such an exception, and to a coroutine it would be a result.
    def receive(ctx: Context, message: Any) -> Any:
        if way == "raised":
            return next(iter(()))
        if way == "failed":
            return Behaviors.failed(StopIteration("nothing"))
        if way == "fail_reply":
            return ctx.fail_reply(StopIteration("nothing"))
        return ctx.defer_reply().fail(StopIteration("nothing"))

    ref: Ref = system.spawn(receive)
    asking = asyncio.create_task(ask_from(where, system, ref, "?", timeout=None))
    async with asyncio.timeout(120.0):
        error = await asking
    assert isinstance(error, Exception)


@HANDLERS
@pytest.mark.parametrize("where", ANYWHERE)
@pytest.mark.parametrize(
    ("cause", "kind"), [(Panic("worse"), ExitKind.PANIC), (asyncio.CancelledError("uninvited"), ExitKind.FAIL)]
)
async def test_what_is_no_exception_does_not_end_the_asker(
    system: ActorSystem, cause: BaseException, kind: ExitKind, where: str, handler: Any
) -> None:  # case 27
    ref: Ref = system.spawn(handler)
    error = await ask_from(where, system, ref, cause, timeout=None)
    assert isinstance(error, ActorTerminated)
    assert error.ref == ref
    reason: Any = error.reason
    assert (reason.kind, reason.cause) == (kind, cause)
    assert reason == await ref.terminated()


async def test_an_asker_that_does_not_catch_it_fails_with_the_same(system: ActorSystem) -> None:  # case 27
    async def pass_on(ctx: Context, path: list[Ref]) -> Any:
        return await path[0].ask(path[1:] or BAD, timeout=None)

    path: list[Ref] = [*(system.spawn(pass_on) for _ in range(3)), system.spawn(raises)]
    assert await outcome(path[0].ask(path[1:])) is BAD
    assert [(await ref.terminated()).cause for ref in path] == [BAD] * 4


@pytest.mark.real
async def test_an_error_that_was_awaited_late_is_not_reported_as_forgotten(system: ActorSystem) -> None:
    reported: list[Any] = []

    async def ask() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        asked = dead.ask("?", timeout=None)
        await until(asked.done)
        kind = type(await outcome(asked))
        del asked
        await asyncio.sleep(0)
        gc.collect()
        return kind

    dead: Ref = system.spawn(raises)
    dead.stop()
    await dead.terminated()
    assert await in_thread(lambda: asyncio.run(ask())) is ActorTerminated
    assert reported == []


# -- case 28


async def cancel_task(system: ActorSystem, keeper: Ref) -> None:
    task = asyncio.create_task(outcome(keeper.ask("?")))
    await system.settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def cancel_ask(system: ActorSystem, keeper: Ref) -> None:
    asked = keeper.ask("?")
    await system.settle()
    assert asked.cancel()
    assert asked.done()
    assert not asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


async def cancel_awaited_ask(system: ActorSystem, keeper: Ref) -> None:
    asked = keeper.ask("?")
    task = asyncio.create_task(outcome(asked))
    await system.settle()
    assert asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def run_out_of_patience(system: ActorSystem, keeper: Ref) -> None:
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0):
            await keeper.ask("?")
    assert not isinstance(caught.value, AskTimeout)
    await system.settle()


async def let_handler_run_out_of_patience(system: ActorSystem, keeper: Ref) -> None:
    async def receive(ctx: Context, _: Any) -> Any:
        try:
            async with asyncio.timeout(0):
                return await keeper.ask("?")
        except TimeoutError as exc:
            return type(exc)

    assert await system.spawn(receive).ask(None, timeout=None) is TimeoutError
    await system.settle()


async def kill_asker(system: ActorSystem, keeper: Ref) -> None:
    async def receive(ctx: Context, _: Any) -> Any:
        return await keeper.ask("?")

    asker: Ref = system.spawn(receive)
    asker.tell(None)
    await until(lambda: system.ledger(keeper).handled)
    asker.kill()
    await asker.terminated()


async def cancel_in_another_thread(system: ActorSystem, keeper: Ref) -> None:
    async def ask() -> None:
        task = asyncio.create_task(outcome(keeper.ask("?")))
        await asyncio.sleep(0)
        await until(lambda: system.ledger(keeper).handled)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    await in_thread(lambda: asyncio.run(ask()))
    await system.settle()


CANCELS = [
    cancel_task,
    cancel_ask,
    cancel_awaited_ask,
    run_out_of_patience,
    let_handler_run_out_of_patience,
    kill_asker,
    pytest.param(cancel_in_another_thread, marks=pytest.mark.real),
]


@pytest.mark.parametrize("cancel", CANCELS)
async def test_the_reply_to_a_cancelled_asker_is_a_dead_letter(
    system: ActorSystem, clock: ManualClock, cancel: Any
) -> None:  # case 28
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)
    await cancel(system, keeper)
    assert system.snapshot().timers == 0  # its timeout is gone as well
    assert system.ledger().late_replies == 0
    kept.pop().send("too late")
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == ["too late"]
    assert system.ledger().late_replies == 1


@pytest.mark.parametrize("asker", ["task", "handler"])
async def test_a_reply_that_its_asker_did_not_live_to_see_is_a_dead_letter(system: ActorSystem, asker: str) -> None:
    # case 28
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)

    async def receive(ctx: Context, _: Any) -> Any:
        return await keeper.ask("?", timeout=None)

    task = asyncio.create_task(outcome(keeper.ask("?"))) if asker == "task" else None
    ref: Ref = system.spawn(receive)
    if task is None:
        ref.tell(None)
    await until(lambda: kept)
    with standstill(system):
        kept.pop().send("seen by nobody")  # the asker can go on, and before it does
        if task is None:
            ref.kill()
        else:
            task.cancel()
    if task is None:
        await ref.terminated()
    else:
        with pytest.raises(asyncio.CancelledError):
            await task
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == ["seen by nobody"]
    assert system.ledger().late_replies == 1


def asks_in_memory() -> int:
    gc.collect()
    return sum(isinstance(thing, Asked) for thing in gc.get_objects())


@pytest.mark.parametrize("replies", ["kept", "lost"])
async def test_asks_that_were_given_up_leave_nothing_behind(
    system: ActorSystem, clock: ManualClock, replies: str
) -> None:  # case 28
    before = asks_in_memory()
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)
    asked = [keeper.ask(number, timeout=1.0) for number in range(100)]
    await system.settle()
    assert asks_in_memory() >= before + 100
    assert all(one.cancel() for one in asked[:50])
    await clock.advance(1.0)
    assert [type(await outcome(one)) for one in asked[50:]] == [AskTimeout] * 50
    if replies == "kept":
        while kept:
            kept.pop().send("late")
    asked.clear()
    kept.clear()
    await system.settle()
    await until(lambda: asks_in_memory() == before)  # a thread may still be about to let go of the last
    assert system.snapshot().timers == 0
    assert keeper.is_alive


async def test_ten_thousand_asks_of_one_slow_actor_all_end(play: Play, system: ActorSystem, clock: ManualClock) -> None:
    # case 29

    class Slow(Actor[int, int]):
        """Takes a tenth of a second for each: it asks somebody who never answers."""

        def __init__(self, silent: Ref) -> None:
            self.silent = silent

        async def receive(self, message: int) -> int:
            await outcome(self.silent.ask(message, timeout=0.1))
            return message

    slow = system.spawn(Slow, system.spawn(Keeper, []), mailbox=MailboxConfig(capacity=500))
    with standstill(system):
        asked = [slow.ask(number, timeout=5.0) for number in range(play.many(10_000))]
    ending = asyncio.gather(*map(outcome, asked))
    await clock.advance(100.0)
    ends = await ending
    assert all(one.done() for one in asked)
    kinds = Counter(type(end) for end in ends)
    assert set(kinds) == {int, MailboxFull, AskTimeout}
    assert kinds[int] + kinds[AskTimeout] == 500  # as many as were let in
    assert kinds[int] in (49, 50)
    assert all(end == number for number, end in enumerate(ends) if isinstance(end, int))
    assert all(end.message == number for number, end in enumerate(ends) if isinstance(end, MailboxFull))
    ledger = system.ledger()
    assert ledger.late_replies == kinds[AskTimeout]
    assert system.ledger(slow).rejected == kinds[MailboxFull]
    assert system.snapshot().timers == 0
