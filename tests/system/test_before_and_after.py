"""A system before it runs and after it has stopped: what can be asked of it then, and what is refused (J2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, ActorTerminated, AskTimeout, Context, State, SystemStopped
from greenroom.errors import GreenroomError, NotStarted
from greenroom.exits import ExitKind
from greenroom.testing import assert_ledger_balanced

if TYPE_CHECKING:
    from tests.conftest import Play

DEADLINE = 120.0


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


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
