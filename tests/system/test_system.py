"""A system: its phases, what holds before and after it runs, and several of them side by side (J2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    AskTimeout,
    Context,
    State,
    SystemConfig,
    SystemFailed,
    SystemStopped,
)
from greenroom.errors import ConfigError, GreenroomError, InvalidDelay, NotStarted, WaitsForItself, WrongLoop
from greenroom.exits import ExitKind
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import report_of
from tests.conformance.sending import Echo

if TYPE_CHECKING:
    from tests.conftest import Play


DEADLINE = 120.0


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
        assert report_of(system).cause is cause

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
async def test_a_system_can_be_stopped_from_anywhere(system: ActorSystem, stop: Callable[[ActorSystem], None]) -> None:
    # J2
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


def test_actors_can_be_spawned_and_told_before_the_system_runs(play: Play) -> None:
    async def main() -> None:
        system = ActorSystem()
        heard: list[str] = []

        def hear(ctx: Context, message: str) -> None:
            heard.append(message)

        ref = system.spawn(hear, name="early")
        ref.tell("first")
        ref << "second"
        assert heard == []
        assert ref.state is State.CREATED
        assert system.actor("early") == ref
        assert [one.name for one in system.actors()] == ["early"]
        assert system.ledger().queued == 2
        assert "early" in system.tree()
        async with system:
            await system.settle()
            assert heard == ["first", "second"]

    play.bare(main)


def test_an_ask_of_a_system_that_nobody_starts_times_out_and_says_so(play: Play) -> None:
    async def main() -> None:
        system = ActorSystem()
        ref = system.spawn(Echo)
        with pytest.raises(AskTimeout) as raised:
            await ref.ask(1, timeout=0.01)
        assert raised.value.__notes__ == ["its system has not been started: `async with system` comes first"]
        # One that is started meanwhile answers, and its own timers count.
        early = asyncio.create_task(in_vain(ref, 20.0))
        await asyncio.sleep(0)
        async with system:
            assert await early == 2

    async def in_vain(ref: ActorRef[Any, Any], timeout: float) -> Any:
        return await ref.ask(2, timeout=timeout)

    play.bare(main)


def test_a_system_that_does_not_run_yet_cannot_be_used_from_another_thread() -> None:
    system = ActorSystem()
    for use in (lambda: system.spawn(Echo), system.actors, system.tree, system.snapshot, lambda: system.actor("x")):
        with pytest.raises(NotStarted):
            in_thread(use)


def test_a_system_that_was_stopped_before_it_ran_never_runs(play: Play) -> None:
    async def main() -> None:
        system = ActorSystem()
        ref = system.spawn(Echo)
        ref.tell("never handled")
        system.stop()
        with pytest.raises(SystemStopped):
            async with system:
                pass
        assert not ref.is_alive
        assert assert_ledger_balanced(system).dead_lettered == 1

    play.bare(main)


def test_a_system_that_was_stopped_by_another_thread_before_it_ran_never_runs(play: Play) -> None:
    async def main() -> None:
        system = ActorSystem()
        in_thread(system.stop)

        async def block() -> None:
            async with system:
                await system.stopped()
                system.spawn(Echo)

        with pytest.raises(SystemStopped):
            await block()

    play.bare(main)


def test_a_system_can_be_entered_once(play: Play) -> None:
    async def main() -> None:
        system = ActorSystem()
        async with system:
            with pytest.raises(GreenroomError):
                await system.__aenter__()
            assert await system.spawn(Echo).ask(1) == 1
            with pytest.raises(GreenroomError), system:
                pass
            assert await system.spawn(Echo).ask(2) == 2
        with pytest.raises(SystemStopped):
            await system.__aenter__()
        with pytest.raises(SystemStopped):
            system.__enter__()

    play.bare(main)


def test_a_stopped_system_answers_questions_and_takes_nothing_in(play: Play) -> None:
    async def main() -> None:
        async with ActorSystem("demo") as system:
            ref = system.spawn(Echo, name="echo")
            await ref.ask(1)
        with pytest.raises(SystemStopped) as caught:
            system.spawn(Echo)
        assert caught.value.code == "system_stopped"
        ref.tell("late")
        ref << "later"
        await ref.send("last")
        with pytest.raises(ActorTerminated):
            await ref.ask("anyone?")
        with pytest.raises(ActorTerminated):
            await ref.started()
        assert (await ref.terminated()).kind is ExitKind.SHUTDOWN
        for again in (ref.stop, ref.kill, lambda: ref.fail(ValueError())):
            again()
        assert system.actors() == []
        assert system.actor("echo") is None
        assert system.actor(ref.id) is None
        assert system.snapshot().actors == ()
        assert system.snapshot().phase == "stopped"
        assert "stopped" in system.tree()
        ledger = assert_ledger_balanced(system)
        assert (ledger.sent, ledger.handled, ledger.dead_lettered) == (5, 1, 4)
        assert assert_ledger_balanced(system, ref) == ledger
        assert system.dead_letters.count == 4
        await system.shutdown()
        await system.stopped()

    play.bare(main)


def test_a_stopped_system_can_be_used_from_other_threads_as_well(play: Play) -> None:
    async def main() -> None:
        async with ActorSystem() as system:
            ref = system.spawn(Echo)
        in_thread(lambda: ref.tell("late"))
        with pytest.raises(SystemStopped):
            in_thread(lambda: system.spawn(Echo))
        with pytest.raises(ActorTerminated):
            in_thread(lambda: ref.ask_sync("anyone?"))
        assert in_thread(system.actors) == []
        assert in_thread(system.ledger).dead_lettered == 2
        assert_ledger_balanced(system)

    play.bare(main)


def test_systems_can_be_nested_and_their_actors_can_talk(play: Play) -> None:  # J2
    async def main() -> None:
        async with ActorSystem("outer") as outer, ActorSystem("inner") as inner:

            class Asker(Actor[str, str]):
                async def receive(self, message: str) -> str:
                    return f"outer {await inside.ask(message)}"

            inside: ActorRef[Any, Any] = inner.spawn(AsyncEcho)
            assert await outer.spawn(Asker).ask("hello") == "outer hello"
        assert_ledger_balanced(inner)
        assert_ledger_balanced(outer)

    play.bare(main)


async def test_a_system_inside_an_actor_of_another_runs_and_ends(system: ActorSystem) -> None:
    async def host(ctx: Context, message: Any) -> Any:
        async with ActorSystem("guest") as guest:
            return await guest.spawn(Echo).ask(message)

    assert await system.spawn(host).ask("hello") == "hello"


def test_two_systems_in_one_loop_know_nothing_of_each_others_actors(play: Play) -> None:
    async def main() -> None:
        async with ActorSystem("same") as one, ActorSystem("same") as two:
            mine = one.spawn(Echo, name="echo")
            theirs = two.spawn(Echo, name="echo")
            assert mine != theirs
            assert (one.actor("echo"), two.actor("echo")) == (mine, theirs)
            for wrong in (
                lambda: one.spawn(Echo, parent=theirs),
                lambda: one.ledger(theirs),
            ):
                with pytest.raises(WrongLoop):
                    wrong()
            theirs.tell(1)
            await two.settle()
            assert (one.ledger().sent, two.ledger().sent) == (0, 1)
            await one.shutdown()
            assert await theirs.ask(2) == 2

    play.bare(main)


async def test_actors_of_two_systems_on_two_threads_can_talk(system: ActorSystem) -> None:
    with ActorSystem("other") as other:
        far = other.spawn(AsyncEcho)

        async def ask_far(ctx: Context, message: Any) -> Any:
            return await far.ask(message)

        near = system.spawn(ask_far)
        assert await asyncio.gather(*(near.ask(number) for number in range(100))) == list(range(100))
        assert other.ledger(far).handled == 100


@pytest.mark.parametrize("wrong", [5, "echo", Echo])
async def test_what_is_no_ref_has_no_ledger_and_no_children(system: ActorSystem, wrong: Any) -> None:
    with pytest.raises((GreenroomError, TypeError)):
        system.ledger(wrong)
    with pytest.raises(ConfigError, match="parent="):
        system.spawn(Echo, parent=wrong)


# -- in a notebook


def test_a_system_can_be_entered_in_one_cell_and_left_in_another(play: Play) -> None:
    """As in a notebook: one loop runs piece by piece, and stands still in between."""
    loop = play.loop_factory()
    try:
        system = ActorSystem("notebook", config=SystemConfig(seed=1))
        loop.run_until_complete(system.__aenter__())
        ref = system.spawn(AsyncEcho)
        ref.tell("sent between two cells")

        async def cell(message: Any) -> Any:
            return await ref.ask(message)

        assert loop.run_until_complete(cell(1)) == 1
        assert loop.run_until_complete(cell(2)) == 2
        loop.run_until_complete(system.settle())
        assert system.ledger().handled == 3
        loop.run_until_complete(system.__aexit__(None, None, None))
        assert system.phase == "stopped"
        assert_ledger_balanced(system)
    finally:
        loop.close()


def test_inside_a_running_loop_a_plain_with_has_a_thread_of_its_own(play: Play) -> None:
    async def main() -> None:
        with ActorSystem() as system:
            ref = system.spawn(AsyncEcho)
            assert await ref.ask(1) == 1
            assert await asyncio.to_thread(ref.ask_sync, 2) == 2

    play.bare(main)


def test_inside_a_running_loop_run_is_refused(play: Play) -> None:
    async def main() -> None:
        with pytest.raises((RuntimeError, GreenroomError)):
            ActorSystem().run()

    play.bare(main)
