"""How a `TestProbe` waits: with one deadline for many waits, for several at once, and never for what cannot come.

(M19)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorRef, ActorSystem, Context
from greenroom.errors import InvalidDelay, WrongLoop
from greenroom.testing import TestProbe
from greenroom.testing.probing.inbox import Envelope

if TYPE_CHECKING:
    from tests.conftest import Play

TOO_LONG = 1000.0
"""Seconds. A test that really waited so long would fail by its own deadline."""


def note(ctx: Context, message: Any) -> None:
    pass


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


# -- within


def test_waits_within_a_window_share_its_time(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system, name="probe", timeout=TOO_LONG)
        probe.ref.tell("a")
        await system.settle()
        async with probe.within(0.02):
            await probe.expect("a")
            with pytest.raises(AssertionError, match=r"/probe got no message in the .* s .* left of within\(0\.02\)"):
                await probe.expect("b")
            with pytest.raises(AssertionError, match=r"in the 0 s that were left of within\(0\.02\); it expected 'c'"):
                await probe.expect("c", timeout=TOO_LONG)
            probe.ref.tell("late")
            await system.settle()
            await probe.expect("late")  # it is there, so nobody has to wait

    play(program)


def test_a_window_may_be_longer_than_what_a_probe_waits_otherwise(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system, timeout=0.0)

        async def patient() -> Any:
            async with probe.within(TOO_LONG):
                return await probe.receive()

        waiting = asyncio.create_task(patient())
        await some_turns()
        assert not waiting.done()
        probe.ref.tell("at last")
        assert await waiting == "at last"

    play(program)


@pytest.mark.parametrize(("outer", "inner"), [(0.01, TOO_LONG), (TOO_LONG, 0.01)])
def test_of_two_windows_the_one_that_ends_earlier_counts(play: Play, outer: float, inner: float) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system, timeout=TOO_LONG)
        async with probe.within(outer), probe.within(inner):
            with pytest.raises(AssertionError, match=r"left of within\(0\.01\)"):
                await probe.receive()
        async with probe.within(0.01):
            async with probe.within(TOO_LONG):
                pass
            with pytest.raises(AssertionError, match=r"left of within\(0\.01\)"):  # as it was before the other
                await probe.receive()

    play(program)


def test_a_timeout_inside_a_window_can_make_it_less(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        async with probe.within(TOO_LONG):
            with pytest.raises(AssertionError, match=r"within 0\.01 s"):
                await probe.receive(timeout=0.01)

    play(program)


def test_nobody_can_tell_that_nothing_comes_for_longer_than_the_window_lasts(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        async with probe.within(0.01):
            with pytest.raises(AssertionError, match=r"cannot wait for .* left of within\(0\.01\)"):
                await probe.expect_no(within=TOO_LONG)
        async with probe.within(TOO_LONG):
            await probe.expect_no(within=0.01)

    play(program)


def test_a_thread_that_is_held_up_does_not_take_that_for_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        aio = asyncio.get_running_loop()
        time, looks = aio.time, count()
        async with ActorSystem() as system:
            probe = TestProbe(system)
            monkeypatch.setattr(aio, "time", lambda: time() + 0.01 * next(looks))  # a while passes between two looks
            await probe.expect_no()
            await probe.expect_no(within=0.001)
            monkeypatch.undo()

    asyncio.run(main())


def test_a_window_is_over_when_it_is_left(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        with pytest.raises(KeyError):
            async with probe.within(0.0):
                raise KeyError
        waiting = asyncio.create_task(probe.receive(TOO_LONG))
        await some_turns()
        assert not waiting.done()
        probe.ref.tell("x")
        await waiting

    play(program)


def test_a_window_is_for_its_own_task_and_those_it_starts_and_for_one_probe(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe, other = TestProbe(system), TestProbe(system)
        unhurried = asyncio.create_task(probe.receive(TOO_LONG))
        of_another = asyncio.create_task(other.receive(TOO_LONG))
        await some_turns()
        async with probe.within(0.01):
            of_another_too = asyncio.create_task(other.receive())
            with pytest.raises(AssertionError, match="left of within"):
                await asyncio.create_task(probe.receive(TOO_LONG))
        assert not unhurried.done()
        assert not of_another_too.done()
        assert not of_another.done()
        probe.ref.tell("for probe")
        other.ref.tell("for other")
        other.ref.tell("for other too")
        assert await unhurried == "for probe"
        assert [await of_another, await of_another_too] == ["for other", "for other too"]

    play(program)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), "soon"])
def test_a_time_that_is_none_is_refused(play: Play, seconds: Any) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        with pytest.raises(InvalidDelay):
            probe.within(seconds)
        for wait in (probe.receive, lambda seconds: probe.expect("x", seconds), lambda s: probe.expect_no(within=s)):
            with pytest.raises(InvalidDelay):
                await wait(seconds)
        with pytest.raises(InvalidDelay):
            TestProbe(system, timeout=seconds)

    play(program)


# -- ends

WAITS: list[Callable[[TestProbe], Coroutine[Any, Any, Any]]] = [
    lambda probe: probe.receive(TOO_LONG),
    lambda probe: probe.expect("x", TOO_LONG),
    lambda probe: probe.expect_all("x", "y", timeout=TOO_LONG),
    lambda probe: probe.fish("x", TOO_LONG),
    lambda probe: probe.expect_terminated(probe.ref, TOO_LONG),
]


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("end", [ActorRef.stop, ActorRef.kill])
def test_a_probe_that_has_ended_is_not_waited_for(play: Play, wait: Any, end: Any) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system, name="probe")
        waiting = asyncio.create_task(wait(probe))
        await some_turns()
        end(probe.ref)
        with pytest.raises(AssertionError, match=r"/probe has ended \(.*\), and no message comes any more"):
            await waiting
        with pytest.raises(AssertionError, match="/probe has ended"):
            await wait(probe)
        await probe.expect_no(within=TOO_LONG)  # that is sure

    play(program)


@pytest.mark.parametrize("wait", WAITS)
def test_a_probe_is_not_waited_for_when_its_system_has_stopped(play: Play, wait: Any) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system, name="probe")
        waiting = asyncio.create_task(wait(probe))
        await system.shutdown()
        with pytest.raises(AssertionError, match=r"/probe has ended \(shutdown\)"):
            await waiting
        with pytest.raises(AssertionError, match="/probe has ended"):
            await wait(probe)
        await probe.expect_no(within=TOO_LONG)

    play(program)


def test_a_probe_is_not_waited_for_when_its_system_never_ran(play: Play) -> None:
    async def main() -> None:
        system = ActorSystem()
        probe = TestProbe(system)
        await system.shutdown()
        with pytest.raises(AssertionError, match="has ended"):
            await probe.receive(TOO_LONG)

    play.bare(main)


def test_what_came_before_a_probes_end_can_be_read_after_it(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        probe.ref.tell("a")
        probe.ref.tell("b")
        probe.ref.stop(after_queued=True)
        await probe.ref.terminated()
        with pytest.raises(AssertionError, match="got 'a'"):
            await probe.expect_no()
        assert await probe.expect_all("b", "a") == ["b", "a"]
        with pytest.raises(AssertionError, match="has ended"):
            await probe.receive(TOO_LONG)

    play(program)


def test_a_probe_that_has_ended_cannot_watch(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        probe.ref.stop()
        await probe.ref.terminated()
        with pytest.raises(AssertionError, match="cannot watch"):
            await probe.watch(system.spawn(note))

    play(program)


def test_a_probe_cannot_watch_an_actor_of_another_system(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        async with ActorSystem("other") as other:
            with pytest.raises(WrongLoop):
                await probe.watch(other.spawn(note))
        assert probe.ref.is_alive

    play(program)


# -- several at once


def test_several_coroutines_may_wait_for_one_probe(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        waiting = [asyncio.create_task(probe.receive(TOO_LONG)) for _ in range(3)]
        await some_turns()
        for number in range(3):
            probe.ref.tell(number)
        assert await asyncio.gather(*waiting) == [0, 1, 2]
        await probe.expect_no()

    play(program)


def test_a_message_is_not_lost_with_a_wait_that_is_cancelled(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        first, second = (asyncio.create_task(probe.receive(TOO_LONG)) for _ in range(2))
        await some_turns()
        probe._inbox.put(Envelope("x"))  # which wakes both
        first.cancel()
        assert await second == "x"
        assert first.cancelled()

    play(program)


# -- from another thread than the system's


def test_a_probe_works_for_a_system_on_another_thread() -> None:
    async def main(system: ActorSystem, probe: TestProbe) -> None:
        waiting = asyncio.create_task(probe.receive(TOO_LONG))
        await some_turns()
        probe.ref.tell("a")
        assert await waiting == "a"
        ref = system.spawn(lambda ctx, message: ctx.reply(message))
        await probe.watch(ref)
        probe.send(ref, "b")
        await probe.expect("b")
        await probe.expect_no()
        ref.tell("c", sender=probe.ref)
        with pytest.raises(AssertionError, match="got 'c'"):
            await probe.expect_no()
        await probe.expect("c")
        ref.stop()
        await probe.expect_terminated(ref)
        asked = probe.ref.ask("question")
        await probe.expect("question")
        probe.reply("answer")
        assert await asked == "answer"
        waiting = asyncio.create_task(probe.receive(TOO_LONG))
        await some_turns()
        probe.ref.stop()
        with pytest.raises(AssertionError, match="has ended"):
            await waiting

    with ActorSystem("elsewhere") as system:
        asyncio.run(main(system, TestProbe(system)))
    assert "elsewhere" not in [thread.name for thread in threading.enumerate()]


def test_a_probe_can_be_read_after_the_end_of_a_system_on_another_thread() -> None:
    with ActorSystem() as system:
        probe = TestProbe(system)
        probe.ref.tell("a")
        asyncio.run(probe.expect("a"))
    asyncio.run(probe.expect_no(within=TOO_LONG))
    with pytest.raises(AssertionError, match="has ended"):
        asyncio.run(probe.receive(TOO_LONG))
