"""A system on its caller's asyncio loop: before it runs, while it does, beside others, and after its end (J2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    Context,
    State,
    SystemFailed,
)
from greenroom.errors import InvalidDelay, WaitsForItself
from greenroom.exits import ExitKind
from greenroom.testing import assert_ledger_balanced

if TYPE_CHECKING:
    from tests.conftest import Play

DEADLINE = 120.0


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


class AsyncEcho(Actor[Any, Any]):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return message


BOTH = pytest.mark.parametrize("echo", [Echo, AsyncEcho])


def in_thread(function: Callable[[], Any]) -> Any:
    """What `function` returns or raises on a thread of its own."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.extend((function(), None))
        except BaseException as exc:
            outcome.extend((None, exc))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(DEADLINE)
    assert not thread.is_alive(), "the thread hangs"
    result, error = outcome
    if error is not None:
        raise error
    return result


# -- running


def test_a_system_goes_from_new_to_running_to_stopping_to_stopped(play: Play) -> None:  # J2
    async def main() -> None:
        seen: list[str] = []

        class Witness(Actor[Any, Any]):
            def receive(self, message: Any) -> None:
                pass

            def pre_stop(self) -> None:
                seen.append(self.ctx.system.phase)

        system = ActorSystem("demo")
        seen.append(system.phase)
        async with system as entered:
            assert entered is system
            seen.append(system.phase)
            await system.spawn(Witness).started()
        seen.append(system.phase)
        assert seen == ["new", "running", "stopping", "stopped"]

    play.bare(main)


@BOTH
def test_leaving_the_block_stops_every_actor_and_then_the_system(play: Play, echo: type[Actor[Any, Any]]) -> None:
    async def main() -> None:
        async with ActorSystem() as system:
            refs = [system.spawn(echo) for _ in range(10)]
            assert [await ref.ask(number) for number, ref in enumerate(refs)] == list(range(10))
        assert [ref.state for ref in refs] == [State.TERMINATED] * 10
        assert {(await ref.terminated()).kind for ref in refs} == {ExitKind.SHUTDOWN}
        assert_ledger_balanced(system)
        report = system.report
        assert report is not None
        assert (report.started, report.terminated, report.forced, report.cause) == (10, 10, (), None)

    play.bare(main)


def test_an_error_in_the_block_goes_on_after_the_system_has_stopped(play: Play) -> None:
    async def main() -> None:
        system = ActorSystem()
        ref = system.spawn(Echo)

        async def block() -> None:
            async with system:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await block()
        assert system.phase == "stopped"
        assert not ref.is_alive

    play.bare(main)


def test_a_cancelled_block_stops_the_system_too(play: Play) -> None:
    async def main() -> None:
        entered = asyncio.Event()
        systems: list[ActorSystem] = []

        async def block() -> None:
            async with ActorSystem() as system:
                systems.append(system)
                system.spawn(Echo)
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(block())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert systems[0].phase == "stopped"

    play.bare(main)


@pytest.mark.parametrize("cause", [ValueError("bad"), KeyboardInterrupt(), SystemExit(3)])
def test_leaving_the_block_raises_the_failure_that_ended_the_system(play: Play, cause: BaseException) -> None:
    async def main() -> None:
        system = ActorSystem("demo")

        async def block() -> None:
            async with system:
                system.fail(cause)
                await system.stopped()

        with pytest.raises(SystemFailed) as caught:
            await block()
        assert caught.value.__cause__ is cause
        assert caught.value.code == "system_failed"
        assert system.report is not None
        assert system.report.cause is cause

    play.bare(main)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_handler_that_raises_one_of_the_great_exceptions_ends_the_system(
    play: Play, kind: type[BaseException]
) -> None:
    def sync_raise(ctx: Context, message: Any) -> None:
        raise kind

    async def async_raise(ctx: Context, message: Any) -> None:
        await asyncio.sleep(0)
        raise kind

    async def main() -> None:
        async def block(system: ActorSystem) -> None:
            async with system:
                await system.stopped()

        for handler in (sync_raise, async_raise):
            system = ActorSystem()
            bystander = system.spawn(Echo)
            system.spawn(handler).tell("now")
            with pytest.raises(SystemFailed) as caught:
                await block(system)
            assert isinstance(caught.value.__cause__, kind)
            assert (await bystander.terminated()).kind is ExitKind.SHUTDOWN
            assert_ledger_balanced(system)

    play.bare(main)


async def test_a_handler_that_fails_does_not_end_the_system(system: ActorSystem) -> None:
    def fail(ctx: Context, message: Any) -> None:
        raise ValueError(message)

    ref = system.spawn(fail)
    ref.tell("bad")
    assert (await ref.terminated()).kind is ExitKind.FAIL
    assert system.phase == "running"
    assert await system.spawn(Echo).ask(1) == 1


# -- stopping


def stop_by_handler(system: ActorSystem) -> None:
    def handler(ctx: Context, message: Any) -> None:
        ctx.system.stop()

    system.spawn(handler).tell("stop")


def stop_by_async_handler(system: ActorSystem) -> None:
    async def handler(ctx: Context, message: Any) -> None:
        await asyncio.sleep(0)
        await ctx.system.shutdown()

    system.spawn(handler).tell("stop")


def stop_by_thread(system: ActorSystem) -> None:
    in_thread(system.stop)


WAYS_TO_STOP = [ActorSystem.stop, stop_by_handler, stop_by_async_handler, stop_by_thread]


@pytest.mark.parametrize("stop", WAYS_TO_STOP)
async def test_a_system_can_be_stopped_from_anywhere(
    system: ActorSystem, stop: Callable[[ActorSystem], None]
) -> None:  # J2
    ref = system.spawn(Echo)
    await system.settle()
    stop(system)
    await system.stopped()
    assert system.phase == "stopped"
    assert not ref.is_alive


async def test_a_stop_by_another_thread_wakes_a_loop_that_sleeps(system: ActorSystem) -> None:  # J2
    thread = threading.Timer(0.05, system.stop)  # by then there is nothing to do here but poll
    thread.start()
    await system.stopped()
    thread.join()


async def test_a_shutdown_asked_for_twice_ends_once(system: ActorSystem) -> None:  # case 59
    stops: list[str] = []

    class Counted(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            pass

        async def post_stop(self) -> None:
            await asyncio.sleep(0)
            stops.append("post_stop")

    await system.spawn(Counted).started()
    await asyncio.gather(system.shutdown(), system.shutdown(), system.stopped())
    await system.shutdown()
    system.stop()
    assert stops == ["post_stop"]


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), "soon", None, True])
async def test_a_shutdown_needs_a_timeout_that_is_one(system: ActorSystem, timeout: Any) -> None:
    with pytest.raises(InvalidDelay):
        await system.shutdown(timeout)
    assert system.phase == "running"


async def test_an_actor_cannot_wait_for_the_end_of_its_system(system: ActorSystem) -> None:
    async def wait(ctx: Context, message: Any) -> None:
        await ctx.system.stopped()

    with pytest.raises(WaitsForItself):
        await system.spawn(wait).ask("wait")
