"""`TestProbe`: an actor whose mailbox a test can read (M19)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, Lane, ManualClock, Terminated
from greenroom.errors import NameTaken
from greenroom.exits import ExitKind
from greenroom.testing import TestProbe

if TYPE_CHECKING:
    from tests.conftest import Play


def echo(ctx: Context, message: Any) -> None:
    ctx.reply(message)


async def fails(ctx: Context, message: Any) -> None:
    raise ValueError(message)


# -- receiving


def test_a_probe_receives_messages_in_order(play: Play) -> None:  # M19
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        for number in range(3):
            probe.ref.tell(number)
        assert [await probe.receive() for _ in range(3)] == [0, 1, 2]
        assert probe.messages == []

    play(program)


def test_a_probe_waits_for_a_message_that_is_still_to_come(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        waiting = asyncio.create_task(probe.receive())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        probe.ref.tell("at last")
        assert await waiting == "at last"

    play(program)


def test_a_probe_that_gets_nothing_says_so(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system, name="probe")
        for wait in (
            lambda: probe.receive(timeout=0.01),
            lambda: probe.receive(timeout=0.0),
            lambda: probe.expect("x", timeout=0.01),
            lambda: probe.expect(str, timeout=0.01),
            lambda: probe.fish(bool, timeout=0.01),
            lambda: probe.expect_terminated(probe.ref, timeout=0.01),
        ):
            with pytest.raises(AssertionError, match="/probe got no message"):
                await wait()
        probe.ref.tell("later")
        assert await probe.receive() == "later"

    play(program)


def test_a_probe_says_what_may_be_the_matter_when_nothing_comes(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(AssertionError, match=r"clock\.advance"):
            await TestProbe(system).receive(timeout=0.0)
        with pytest.raises(AssertionError, match="'idle' does not run yet"):
            await TestProbe(ActorSystem("idle")).receive(timeout=0.0)
        probe, ref = TestProbe(system), system.spawn(echo)
        with pytest.raises(AssertionError, match=r"it does not watch: `await probe\.watch"):
            await probe.expect_terminated(ref, timeout=0.0)
        await probe.watch(ref)
        with pytest.raises(AssertionError) as caught:
            await probe.expect_terminated(ref, timeout=0.0)
        assert f"; it expected the end of {ref} (time stands still" in str(caught.value)

    play(program, clock=ManualClock())


def test_a_probe_has_a_name_if_it_is_given_one(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        assert TestProbe(system).ref.name == "TestProbe$0"
        probe = TestProbe(system, name="probe")
        assert probe.ref.path == "/probe"
        assert system.actor("probe") == probe.ref
        assert TestProbe(system).ref != TestProbe(system).ref
        with pytest.raises(NameTaken):
            TestProbe(system, name="probe")

    play(program)


def test_a_probe_shows_what_came_and_was_not_expected_yet(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        for number in range(3):
            probe.ref.tell(number)
        assert probe.messages == []
        await system.settle()
        assert probe.messages == [0, 1, 2]
        probe.messages.clear()
        await probe.expect(0)
        assert probe.messages == [1, 2]

    play(program)


def test_a_probe_knows_who_sent_the_last_message(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        ref = system.spawn(echo)
        ref.tell("hello", sender=probe.ref)
        await probe.expect("hello")
        assert probe.last_sender == ref
        probe.ref.tell("from outside")
        await probe.expect("from outside")
        assert probe.last_sender is None

    play(program)


def test_a_probe_takes_messages_of_every_lane_and_from_other_threads(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        for lane in Lane:
            probe.ref.tell(lane, lane=lane)
        assert [await probe.receive() for _ in Lane] == sorted(Lane, reverse=True)
        await asyncio.to_thread(probe.ref.tell, "thread")
        await probe.expect("thread")
        await probe.ref.send("sent")
        await probe.expect("sent")

    play(program)


# -- watching


@pytest.mark.parametrize(
    ("end", "kind", "cause"),
    [
        (ActorRef.stop, ExitKind.NORMAL, None),
        (ActorRef.kill, ExitKind.KILLED, None),
        (lambda ref: ref.tell("bad"), ExitKind.FAIL, ValueError),
    ],
)
def test_a_probe_is_told_of_the_end_of_what_it_watches(play: Play, end: Any, kind: ExitKind, cause: Any) -> None:  # M8
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        ref = system.spawn(fails)
        await probe.watch(ref)
        end(ref)
        notice = await probe.expect_terminated(ref)
        assert isinstance(notice, Terminated)
        assert notice.reason.kind is kind
        assert (None if notice.cause is None else type(notice.cause)) is cause
        assert probe.ref.is_alive
        await probe.expect_no()

    play(program)


def test_a_probe_is_told_at_once_of_the_end_of_a_dead_actor(play: Play) -> None:  # case 13
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        ref = system.spawn(echo)
        ref.stop()
        await ref.terminated()
        await probe.watch(ref)
        assert (await probe.expect_terminated(ref)).ref == ref

    play(program)


def test_a_probe_that_watches_twice_is_told_once(play: Play) -> None:  # case 14
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        ref = system.spawn(echo)
        await probe.watch(ref)
        await probe.watch(ref)
        ref.stop()
        await probe.expect_terminated(ref)
        await probe.expect_no()

    play(program)


def test_a_probe_says_when_another_than_the_expected_ended(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        first, second = system.spawn(echo, name="first"), system.spawn(echo, name="second")
        await probe.watch(first)
        await probe.watch(second)
        second.stop()
        with pytest.raises(AssertionError, match=r"first.*second"):
            await probe.expect_terminated(first)
        probe.ref.tell("no notice")
        with pytest.raises(AssertionError, match="no notice"):
            await probe.expect_terminated(first)

    play(program)


def test_what_was_sent_before_the_end_comes_before_the_notice_of_it(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)

        class Last(Actor[Any, Any]):
            def receive(self, message: Any) -> None:
                probe.ref.tell("last words")
                raise ValueError(message)

        ref = system.spawn(Last)
        await probe.watch(ref)
        ref.tell("die")
        await probe.expect("last words")
        await probe.expect_terminated(ref)

    play(program)


# -- with the rest of the kit


def test_a_probe_and_a_manual_clock_test_timing_without_waiting(play: Play) -> None:  # M19
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: ctx.send_every(10.0, probe.ref, ctx.now()))
        ref.tell("go")
        await clock.advance(9.9)
        await probe.expect_no()
        await clock.advance(0.1)
        await probe.expect(0.0)
        await clock.advance(30.0)
        assert [await probe.receive() for _ in range(3)] == [0.0] * 3
        await probe.expect_no()

    play(program, clock=clock)


def test_what_a_probe_hears_is_in_the_ledger(play: Play) -> None:  # B4
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        probe.ref.tell("a")
        await probe.expect("a")
        ledger = system.ledger(probe.ref)
        assert (ledger.sent, ledger.handled) == (1, 1)

    play(program)


def test_a_probe_can_be_asked_and_stopped_like_any_actor(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        asked = probe.ref.ask("question")
        assert await probe.receive() == "question"
        probe.reply("answer")
        assert await asked == "answer"
        probe.ref.stop()
        assert (await probe.ref.terminated()).kind is ExitKind.NORMAL
        probe.ref.tell("too late")
        assert system.dead_letters.count == 1

    play(program)


def test_a_probe_shows_how_much_is_unread(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system, name="probe")
        probe.ref.tell("a")
        await system.settle()
        assert repr(probe) == "<TestProbe /probe, 1 unread>"

    play(program)


def test_a_probe_goes_on_after_a_restart(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        probe.ref.tell("before")
        await system.settle()
        probe.ref.restart()
        probe.ref.tell("after")
        await probe.expect("before")
        await probe.expect("after")

    play(program)


def test_pytest_does_not_take_it_for_a_test() -> None:
    assert TestProbe.__test__ is False


def test_importing_greenroom_leaves_the_test_kit_out() -> None:
    code = "import sys, greenroom; print(*[name for name in sys.modules if name.startswith('greenroom.testing')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b""
