"""`TestProbe`: an actor whose mailbox a test can read, and which sends and answers (M19)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, ActorTerminated, AskTimeout, Context, Lane, ManualClock, Terminated
from greenroom.errors import NameTaken
from greenroom.exits import ExitKind
from greenroom.testing import TestProbe, assert_ledger_balanced


def echo(ctx: Context, message: Any) -> None:
    ctx.reply(message)


async def fails(ctx: Context, message: Any) -> None:
    raise ValueError(message)


# -- receiving


async def test_a_probe_receives_messages_in_order(system: ActorSystem) -> None:  # M19
    probe = TestProbe(system)
    for number in range(3):
        probe.ref.tell(number)
    assert [await probe.receive() for _ in range(3)] == [0, 1, 2]
    assert probe.messages == []


async def test_a_probe_waits_for_a_message_that_is_still_to_come(system: ActorSystem) -> None:
    probe = TestProbe(system)
    waiting = asyncio.create_task(probe.receive())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    probe.ref.tell("at last")
    assert await waiting == "at last"


async def test_a_probe_that_gets_nothing_says_so(system: ActorSystem) -> None:
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


async def test_a_probe_says_what_may_be_the_matter_when_nothing_comes(system: ActorSystem, clock: ManualClock) -> None:
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


async def test_a_probe_has_a_name_if_it_is_given_one(system: ActorSystem) -> None:
    assert TestProbe(system).ref.name == "TestProbe$0"
    probe = TestProbe(system, name="probe")
    assert probe.ref.path == "/probe"
    assert system.actor("probe") == probe.ref
    assert TestProbe(system).ref != TestProbe(system).ref
    with pytest.raises(NameTaken):
        TestProbe(system, name="probe")


async def test_a_probe_shows_what_came_and_was_not_expected_yet(system: ActorSystem) -> None:
    probe = TestProbe(system)
    for number in range(3):
        probe.ref.tell(number)
    assert probe.messages == []
    await system.settle()
    assert probe.messages == [0, 1, 2]
    probe.messages.clear()
    await probe.expect(0)
    assert probe.messages == [1, 2]


async def test_a_probe_knows_who_sent_the_last_message(system: ActorSystem) -> None:
    probe = TestProbe(system)
    ref = system.spawn(echo)
    ref.tell("hello", sender=probe.ref)
    await probe.expect("hello")
    assert probe.last_sender == ref
    probe.ref.tell("from outside")
    await probe.expect("from outside")
    assert probe.last_sender is None


async def test_a_probe_takes_messages_of_every_lane_and_from_other_threads(system: ActorSystem) -> None:
    probe = TestProbe(system)
    for lane in Lane:
        probe.ref.tell(lane, lane=lane)
    assert [await probe.receive() for _ in Lane] == sorted(Lane, reverse=True)
    await asyncio.to_thread(probe.ref.tell, "thread")
    await probe.expect("thread")
    await probe.ref.send("sent")
    await probe.expect("sent")


# -- watching


@pytest.mark.parametrize(
    ("end", "kind", "cause"),
    [
        (ActorRef.stop, ExitKind.NORMAL, None),
        (ActorRef.kill, ExitKind.KILLED, None),
        (lambda ref: ref.tell("bad"), ExitKind.FAIL, ValueError),
    ],
)
async def test_a_probe_is_told_of_the_end_of_what_it_watches(
    system: ActorSystem, end: Any, kind: ExitKind, cause: Any
) -> None:  # M8
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


async def test_a_probe_is_told_at_once_of_the_end_of_a_dead_actor(system: ActorSystem) -> None:  # case 13
    probe = TestProbe(system)
    ref = system.spawn(echo)
    ref.stop()
    await ref.terminated()
    await probe.watch(ref)
    assert (await probe.expect_terminated(ref)).ref == ref


async def test_a_probe_that_watches_twice_is_told_once(system: ActorSystem) -> None:  # case 14
    probe = TestProbe(system)
    ref = system.spawn(echo)
    await probe.watch(ref)
    await probe.watch(ref)
    ref.stop()
    await probe.expect_terminated(ref)
    await probe.expect_no()


async def test_a_probe_says_when_another_than_the_expected_ended(system: ActorSystem) -> None:
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


async def test_what_was_sent_before_the_end_comes_before_the_notice_of_it(system: ActorSystem) -> None:
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


# -- with the rest of the kit


async def test_a_probe_and_a_manual_clock_test_timing_without_waiting(
    system: ActorSystem, clock: ManualClock
) -> None:  # M19
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


async def test_what_a_probe_hears_is_in_the_ledger(system: ActorSystem) -> None:  # B4
    probe = TestProbe(system)
    probe.ref.tell("a")
    await probe.expect("a")
    ledger = system.ledger(probe.ref)
    assert (ledger.sent, ledger.handled) == (1, 1)


async def test_a_probe_can_be_asked_and_stopped_like_any_actor(system: ActorSystem) -> None:
    probe = TestProbe(system)
    asked = probe.ref.ask("question")
    assert await probe.receive() == "question"
    probe.reply("answer")
    assert await asked == "answer"
    probe.ref.stop()
    assert (await probe.ref.terminated()).kind is ExitKind.NORMAL
    probe.ref.tell("too late")
    assert system.dead_letters.count == 1


async def test_a_probe_shows_how_much_is_unread(system: ActorSystem) -> None:
    probe = TestProbe(system, name="probe")
    probe.ref.tell("a")
    await system.settle()
    assert repr(probe) == "<TestProbe /probe, 1 unread>"


async def test_a_probe_goes_on_after_a_restart(system: ActorSystem) -> None:
    probe = TestProbe(system)
    probe.ref.tell("before")
    await system.settle()
    probe.ref.restart()
    probe.ref.tell("after")
    await probe.expect("before")
    await probe.expect("after")


def test_pytest_does_not_take_it_for_a_test() -> None:
    assert TestProbe.__test__ is False


def test_importing_greenroom_leaves_the_test_kit_out() -> None:
    code = "import sys, greenroom; print(*[name for name in sys.modules if name.startswith('greenroom.testing')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b""


class Client(Actor[str, str]):
    """Asks its server, and passes the answer on."""

    def __init__(self, server: ActorRef[Any, Any]) -> None:
        self.server = server

    async def receive(self, message: str) -> str:
        try:
            return f"{message}: {await self.server.ask(message)}"
        except ConnectionError as exc:
            return f"{message}: {exc}"


async def test_a_probe_answers_whoever_asked_it(system: ActorSystem) -> None:
    server = TestProbe(system)
    client = system.spawn(Client, server.ref)
    asked = client.ask("time")
    await server.expect("time")
    assert server.last_sender == client
    assert not asked.done()
    server.reply("noon")
    assert await asked == "time: noon"
    from_outside = server.ref.ask("place")
    await server.expect("place")
    assert server.last_sender is None
    server.reply(None)
    assert await from_outside is None


async def test_a_probe_answers_what_it_read_last(system: ActorSystem) -> None:
    server = TestProbe(system)
    first, second = server.ref.ask("first"), server.ref.ask("second")
    await server.expect("first")
    server.reply(1)
    await server.expect("second")
    server.reply(2)
    assert [await first, await second] == [1, 2]


async def test_a_probe_can_let_an_ask_fail(system: ActorSystem) -> None:
    server = TestProbe(system)
    asked = system.spawn(Client, server.ref).ask("time")
    await server.expect("time")
    server.fail_reply(ConnectionError("no line"))
    assert await asked == "time: no line"
    assert server.ref.is_alive


async def test_an_ask_that_a_probe_does_not_answer_ends_like_any_other(system: ActorSystem, clock: ManualClock) -> None:
    server = TestProbe(system)
    late, lost = server.ref.ask("late"), server.ref.ask("lost", timeout=100.0)
    await server.expect("late")
    await clock.advance(5.0)
    with pytest.raises(AskTimeout):
        await late
    server.reply("too late")
    assert system.dead_letters.by_reason == {"late reply": 1}
    server.ref.stop()
    with pytest.raises(ActorTerminated):
        await lost


async def test_a_probe_tells_its_reply_to_an_actor_that_told_it_something(system: ActorSystem) -> None:
    probe, other = TestProbe(system), TestProbe(system)
    other.send(probe.ref, "hello")
    await probe.expect("hello")
    for number in range(2):  # a tell can be answered more than once
        probe.reply(number)
        await other.expect(number)
    assert other.last_sender == probe.ref


async def test_a_probe_sends_as_itself_and_by_any_lane(system: ActorSystem) -> None:
    probe = TestProbe(system)

    def echo(ctx: Context, message: str) -> None:
        ctx.reply((message, ctx.lane))

    ref = system.spawn(echo)
    probe.send(ref, "slow")
    probe.send(ref, "fast", lane=Lane.CONTROL)
    assert await probe.receive() == ("fast", Lane.CONTROL)
    assert await probe.receive() == ("slow", Lane.DATA)
    assert probe.last_sender == ref


async def test_a_probe_that_cannot_answer_says_why(system: ActorSystem) -> None:
    probe = TestProbe(system, name="probe")
    for answer in (lambda: probe.reply(1), lambda: probe.fail_reply(ValueError())):
        with pytest.raises(AssertionError, match="/probe has read no message to reply to"):
            answer()
    probe.ref.tell("hello")
    await probe.expect("hello")
    with pytest.raises(AssertionError, match="/probe has nobody to reply to: 'hello' was told from outside"):
        probe.reply(1)
    with pytest.raises(AssertionError, match="/probe cannot fail the reply to 'hello'"):
        probe.fail_reply(ValueError())
    asked = probe.ref.ask("question")
    await probe.expect("question")
    probe.reply("answer")
    for answer in (lambda: probe.reply(1), lambda: probe.fail_reply(ValueError())):
        with pytest.raises(AssertionError, match="/probe has answered 'question' already"):
            answer()
    assert await asked == "answer"
    assert_ledger_balanced(system)


async def test_a_probe_can_stand_in_the_middle(system: ActorSystem) -> None:
    middle = TestProbe(system)
    real = system.spawn(lambda ctx, message: f"{message}!")
    asked = system.spawn(Client, middle.ref).ask("time")
    middle.reply(await real.ask(await middle.receive()))
    assert await asked == "time: time!"
