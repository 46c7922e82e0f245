"""`TestProbe`: an actor whose mailbox a test can read, and which sends, answers, and waits for messages (M19)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count
from operator import eq
from typing import TYPE_CHECKING, Any, Literal, NewType, Optional, assert_type
from unittest import mock

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    AskTimeout,
    Context,
    Lane,
    ManualClock,
    OnExit,
    Terminated,
)
from greenroom.errors import BadArgument, InvalidDelay, NameTaken, WrongLoop
from greenroom.exits import NORMAL, ExitKind
from greenroom.testing import TestProbe, assert_ledger_balanced
from greenroom.testing.probing import probe as probing
from greenroom.testing.probing.inbox import Envelope, Inbox
from greenroom.testing.probing.matching import in_words, listed, match_all, matches, shown

if TYPE_CHECKING:
    from tests.conftest import Play


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


class Deposit:
    def __init__(self, amount: int) -> None:
        self.amount = amount


class Bonus(Deposit):
    pass


@pytest.mark.parametrize("message", [1, "text", None, (1, 2), [1], 0, False, ""])
async def test_a_probe_gives_back_the_message_it_expected(system: ActorSystem, message: Any) -> None:
    probe = TestProbe(system)
    probe.ref.tell(message)
    assert await probe.expect(message) == message
    probe.ref.tell(message)
    assert await probe.expect(type(message)) == message


async def test_a_probe_that_expects_a_type_takes_its_subclasses(system: ActorSystem) -> None:
    probe = TestProbe(system)
    sent = Bonus(5)
    probe.ref.tell(sent)
    got = await probe.expect(Deposit)
    assert got is sent
    assert got.amount == 5


@pytest.mark.parametrize(
    ("sent", "wanted"), [("other", "wanted"), (1, str), (Deposit(1), Bonus), (Deposit(1), Deposit(1)), (None, "x")]
)
async def test_a_probe_that_gets_something_else_says_what_it_was(system: ActorSystem, sent: Any, wanted: Any) -> None:
    probe = TestProbe(system)
    probe.ref.tell(sent)
    with pytest.raises(AssertionError) as caught:
        await probe.expect(wanted)
    assert repr(sent) in str(caught.value)
    assert repr(wanted) in str(caught.value)


async def test_a_probe_that_gets_something_else_says_from_whom_and_what_came_after(system: ActorSystem) -> None:
    probe = TestProbe(system, name="probe")
    ref = system.spawn(echo, name="echo")
    for number in range(6):
        probe.send(ref, number)
    await system.settle()
    with pytest.raises(AssertionError) as caught:
        await probe.expect("wanted")
    text = str(caught.value)
    assert text.startswith("/probe expected 'wanted' and got 0 from /echo; after it came 1, 2, 3, ...")
    assert "`fish`" in text


async def test_a_probe_can_be_told_by_a_function_what_to_expect(system: ActorSystem) -> None:
    probe = TestProbe(system, name="probe")
    for number in (5, 6, 7):
        probe.ref.tell(number)
    assert await probe.expect(lambda number: number == 5) == 5
    with pytest.raises(AssertionError, match=r"expected what <lambda> \(test_probe\.py:\d+\) is true of and got 6"):
        await probe.expect(lambda number: number > 6)
    with pytest.raises(AttributeError) as caught:
        await probe.expect(lambda number: number.amount > 6)
    assert "asked about the message 7" in caught.value.__notes__[0]


async def test_a_probe_expects_one_of_several(system: ActorSystem) -> None:
    probe = TestProbe(system)
    for message in ("b", 5, 1.5):
        probe.ref.tell(message)
    assert await probe.expect_any_of("a", "b") == "b"
    assert await probe.expect_any_of(str, int) == 5
    with pytest.raises(AssertionError, match=r"one of <class 'str'>, 7 and got 1\.5"):
        await probe.expect_any_of(str, 7)
    with pytest.raises(AssertionError, match=r"no message within 0\.0 s; it expected one of 'x', 'y'"):
        await probe.expect_any_of("x", "y", timeout=0.0)
    with pytest.raises(BadArgument):
        await probe.expect_any_of()


async def test_a_probe_expects_all_of_several_in_any_order(system: ActorSystem) -> None:
    probe = TestProbe(system)
    for message in ("b", "a", "c", "after"):
        probe.ref.tell(message)
    assert await probe.expect_all("a", "b", "c") == ["a", "b", "c"]
    assert await probe.expect_all("after") == ["after"]
    for number in (5, 7):
        probe.ref.tell(number)
    assert await probe.expect_all(int, 5) == [7, 5]  # though 5 came first, and is an int
    with pytest.raises(BadArgument):
        await probe.expect_all()


async def test_a_probe_that_misses_some_of_several_says_which(system: ActorSystem) -> None:
    probe = TestProbe(system)
    for message in ("a", "x", "a", "b"):
        probe.ref.tell(message)
    with pytest.raises(AssertionError, match="expected 'b', 'c' in any order and got 'x'"):
        await probe.expect_all("a", "b", "c")
    assert await probe.receive() == "a"
    with pytest.raises(AssertionError, match="of what it expected, 'c', 'd' did not come"):
        await probe.expect_all("c", "b", "d", timeout=0.0)
    for message in ("a", "a"):
        probe.ref.tell(message)
    with pytest.raises(AssertionError, match="expected 'b' in any order and got 'a'"):
        await probe.expect_all("a", "b")


async def test_a_probe_can_fish_for_a_message(system: ActorSystem) -> None:
    probe = TestProbe(system)
    for number in range(10):
        probe.ref.tell(number)
    assert await probe.fish(lambda number: number > 6) == 7
    assert await probe.receive() == 8
    with pytest.raises(AssertionError, match=r"fished for what <lambda> \(test_probe\.py:\d+\) is true of.*let 1 go"):
        await probe.fish(lambda number: number > 100, timeout=0.01)
    assert probe.messages == []
    probe.ref.tell(1)
    probe.ref.tell(Bonus(2))
    probe.ref.tell("bait")
    assert_type(await probe.fish(Deposit), Deposit)
    assert_type(await probe.fish("bait"), str)
    for number in range(5):
        probe.ref.tell(number)
    await system.settle()
    assert await probe.fish(4, timeout=0.0) == 4  # all that is there is looked at, even without any time


@pytest.mark.config(on_exit=OnExit.DISCARD)
async def test_fishing_comes_to_an_end_though_messages_keep_coming(system: ActorSystem) -> None:
    probe = TestProbe(system)

    def babble(ctx: Context, message: Any) -> None:
        probe.ref.tell(message)
        ctx.self.tell(message)

    system.spawn(babble).tell("blah")
    with pytest.raises(AssertionError, match="fished for 'sense'"):
        await probe.fish("sense", timeout=0.05)


async def test_a_probe_expects_silence(system: ActorSystem) -> None:
    probe = TestProbe(system)
    await probe.expect_no()
    await probe.expect_no(within=0.01)

    async def pass_on(ctx: Context, message: Any) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        probe.ref.tell(message)

    system.spawn(pass_on).tell("on its way")  # not there yet, but it will be when the system has settled
    with pytest.raises(AssertionError, match="on its way"):
        await probe.expect_no()
    assert probe.messages == ["on its way"]


async def test_a_probe_hears_what_breaks_a_silence_that_it_waits_out(system: ActorSystem) -> None:
    probe = TestProbe(system)
    silence = asyncio.create_task(probe.expect_no(within=20.0))
    for _ in range(5):
        await asyncio.sleep(0)
    probe.ref.tell("noise")
    with pytest.raises(AssertionError, match="noise"):
        await silence


def unlucky(message: Any) -> bool:
    return bool(message == 13)


@pytest.mark.parametrize("unwanted", [13, unlucky, bool])
async def test_a_probe_can_expect_that_one_kind_of_message_does_not_come(system: ActorSystem, unwanted: Any) -> None:
    probe = TestProbe(system)
    for number in (1, 2):
        probe.ref.tell(number)
    await probe.expect_no(unwanted=unwanted)
    await probe.expect_no(unwanted=unwanted, within=0.01)
    silence = asyncio.create_task(probe.expect_no(unwanted=unwanted, within=20.0))
    for _ in range(5):
        await asyncio.sleep(0)
    probe.ref.tell(3)
    await system.settle()
    assert not silence.done()  # that one may come
    noise = True if unwanted is bool else 13
    probe.ref.tell(noise)
    with pytest.raises(AssertionError, match=f"expected nothing like .* and got {noise}"):
        await silence
    assert probe.messages == [1, 2, 3, noise]


@pytest.mark.parametrize("number", [1, 0.5])
async def test_a_bare_number_might_be_seconds_or_a_message_and_is_refused(system: ActorSystem, number: float) -> None:
    probe = TestProbe(system)
    probe.ref.tell("noise")
    with pytest.raises(BadArgument, match=f"`within={number}` for seconds, `unwanted={number}` for a message"):
        await probe.expect_no(number)
    await probe.expect_no(str.isupper)
    with pytest.raises(AssertionError, match="nothing like"):
        await probe.expect_no(str)


async def test_a_probe_cannot_tell_of_silence_in_a_system_that_never_settles(system: ActorSystem) -> None:
    probe = TestProbe(system, name="probe")
    system.spawn(lambda ctx, message: ctx.self.tell(message), name="busy").tell("on")
    async with probe.within(0.05):
        with pytest.raises(AssertionError, match=r"/probe cannot tell that no message comes: .*/busy"):
            await probe.expect_no()


async def test_an_unwanted_message_is_told_of_at_once_though_the_system_never_settles(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_SETTLE_TIMEOUT", 1e6)
    probe = TestProbe(system, name="probe")
    system.spawn(lambda ctx, message: ctx.self.tell(message), name="busy").tell("on")
    system.spawn(lambda ctx, message: probe.ref.tell(message)).tell("noise")
    with pytest.raises(AssertionError, match="expected no message and got 'noise'"):
        await probe.expect_no()


async def babble_to(probe: TestProbe) -> None:
    while True:
        probe.ref.tell("blah")
        for _ in range(10):  # between two, the system settles
            await asyncio.sleep(0)


async def test_waiting_comes_to_an_end_though_what_does_not_matter_keeps_coming(system: ActorSystem) -> None:
    probe = TestProbe(system)
    babbling = asyncio.create_task(babble_to(probe))
    await probe.expect_no("sense", within=0.02)
    probe.ignore("blah")
    with pytest.raises(AssertionError, match="no message within"):
        await probe.receive(timeout=0.02)
    babbling.cancel()


async def test_a_probe_ignores_what_it_is_told_to(system: ActorSystem) -> None:
    probe = TestProbe(system)
    for message in (1, "tick", 2, Bonus(3)):
        probe.ref.tell(message)
    await system.settle()
    probe.ignore("tick", Deposit, lambda message: message == 1)
    assert probe.messages == [2]
    waiting = asyncio.create_task(probe.expect_all(2, "news"))
    for message in ("tick", "tick", "news"):
        probe.ref.tell(message)
    assert await waiting == [2, "news"]
    probe.ref.tell("tick")
    await probe.expect_no()
    probe.ignore()
    probe.ref.tell("tick")
    await probe.expect("tick")


TOO_LONG = 1000.0
"""Seconds. A test that really waited so long would fail by its own deadline."""


def note(ctx: Context, message: Any) -> None:
    pass


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


# -- within
async def test_waits_within_a_window_share_its_time(system: ActorSystem) -> None:
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


async def test_a_window_may_be_longer_than_what_a_probe_waits_otherwise(system: ActorSystem) -> None:
    probe = TestProbe(system, timeout=0.0)

    async def patient() -> Any:
        async with probe.within(TOO_LONG):
            return await probe.receive()

    waiting = asyncio.create_task(patient())
    await some_turns()
    assert not waiting.done()
    probe.ref.tell("at last")
    assert await waiting == "at last"


@pytest.mark.parametrize(("outer", "inner"), [(0.01, TOO_LONG), (TOO_LONG, 0.01)])
async def test_of_two_windows_the_one_that_ends_earlier_counts(system: ActorSystem, outer: float, inner: float) -> None:
    probe = TestProbe(system, timeout=TOO_LONG)
    async with probe.within(outer), probe.within(inner):
        with pytest.raises(AssertionError, match=r"left of within\(0\.01\)"):
            await probe.receive()
    async with probe.within(0.01):
        async with probe.within(TOO_LONG):
            pass
        with pytest.raises(AssertionError, match=r"left of within\(0\.01\)"):  # as it was before the other
            await probe.receive()


async def test_a_timeout_inside_a_window_can_make_it_less(system: ActorSystem) -> None:
    probe = TestProbe(system)
    async with probe.within(TOO_LONG):
        with pytest.raises(AssertionError, match=r"within 0\.01 s"):
            await probe.receive(timeout=0.01)


async def test_nobody_can_tell_that_nothing_comes_for_longer_than_the_window_lasts(system: ActorSystem) -> None:
    probe = TestProbe(system)
    async with probe.within(0.01):
        with pytest.raises(AssertionError, match=r"cannot wait for .* left of within\(0\.01\)"):
            await probe.expect_no(within=TOO_LONG)
    async with probe.within(TOO_LONG):
        await probe.expect_no(within=0.01)


@pytest.mark.anyio
async def test_a_thread_that_is_held_up_does_not_take_that_for_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    aio = asyncio.get_running_loop()
    time, looks = aio.time, count()
    async with ActorSystem() as system:
        probe = TestProbe(system)
        monkeypatch.setattr(aio, "time", lambda: time() + 0.01 * next(looks))  # a while passes between two looks
        await probe.expect_no()
        await probe.expect_no(within=0.001)
        monkeypatch.undo()


async def test_a_window_is_over_when_it_is_left(system: ActorSystem) -> None:
    probe = TestProbe(system)
    with pytest.raises(KeyError):
        async with probe.within(0.0):
            raise KeyError
    waiting = asyncio.create_task(probe.receive(TOO_LONG))
    await some_turns()
    assert not waiting.done()
    probe.ref.tell("x")
    await waiting


async def test_a_window_is_for_its_own_task_and_those_it_starts_and_for_one_probe(system: ActorSystem) -> None:
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


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), "soon"])
async def test_a_time_that_is_none_is_refused(system: ActorSystem, seconds: Any) -> None:
    probe = TestProbe(system)
    with pytest.raises(InvalidDelay):
        probe.within(seconds)
    for wait in (probe.receive, lambda seconds: probe.expect("x", seconds), lambda s: probe.expect_no(within=s)):
        with pytest.raises(InvalidDelay):
            await wait(seconds)
    with pytest.raises(InvalidDelay):
        TestProbe(system, timeout=seconds)


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
async def test_a_probe_that_has_ended_is_not_waited_for(system: ActorSystem, wait: Any, end: Any) -> None:
    probe = TestProbe(system, name="probe")
    waiting = asyncio.create_task(wait(probe))
    await some_turns()
    end(probe.ref)
    with pytest.raises(AssertionError, match=r"/probe has ended \(.*\), and no message comes any more"):
        await waiting
    with pytest.raises(AssertionError, match="/probe has ended"):
        await wait(probe)
    await probe.expect_no(within=TOO_LONG)  # that is sure


@pytest.mark.parametrize("wait", WAITS)
async def test_a_probe_is_not_waited_for_when_its_system_has_stopped(system: ActorSystem, wait: Any) -> None:
    probe = TestProbe(system, name="probe")
    waiting = asyncio.create_task(wait(probe))
    await system.shutdown()
    with pytest.raises(AssertionError, match=r"/probe has ended \(shutdown\)"):
        await waiting
    with pytest.raises(AssertionError, match="/probe has ended"):
        await wait(probe)
    await probe.expect_no(within=TOO_LONG)


async def test_a_probe_is_not_waited_for_when_its_system_never_ran(play: Play) -> None:
    system = ActorSystem()
    probe = TestProbe(system)
    await system.shutdown()
    with pytest.raises(AssertionError, match="has ended"):
        await probe.receive(TOO_LONG)


async def test_what_came_before_a_probes_end_can_be_read_after_it(system: ActorSystem) -> None:
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


async def test_a_probe_that_has_ended_cannot_watch(system: ActorSystem) -> None:
    probe = TestProbe(system)
    probe.ref.stop()
    await probe.ref.terminated()
    with pytest.raises(AssertionError, match="cannot watch"):
        await probe.watch(system.spawn(note))


async def test_a_probe_cannot_watch_an_actor_of_another_system(system: ActorSystem) -> None:
    probe = TestProbe(system)
    async with ActorSystem("other") as other:
        with pytest.raises(WrongLoop):
            await probe.watch(other.spawn(note))
    assert probe.ref.is_alive


# -- several at once
async def test_several_coroutines_may_wait_for_one_probe(system: ActorSystem) -> None:
    probe = TestProbe(system)
    waiting = [asyncio.create_task(probe.receive(TOO_LONG)) for _ in range(3)]
    await some_turns()
    for number in range(3):
        probe.ref.tell(number)
    assert await asyncio.gather(*waiting) == [0, 1, 2]
    await probe.expect_no()


async def test_a_message_is_not_lost_with_a_wait_that_is_cancelled(system: ActorSystem) -> None:
    probe = TestProbe(system)
    first, second = (asyncio.create_task(probe.receive(TOO_LONG)) for _ in range(2))
    await some_turns()
    probe._inbox.put(Envelope("x"))  # which wakes both
    first.cancel()
    assert await second == "x"
    assert first.cancelled()


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


class Picky:
    """Compares with its own kind only."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        theirs: Any = other
        return bool(self.value == theirs.value)

    __hash__ = None  # type: ignore[assignment]


def handler(message: Any) -> None:
    raise AssertionError("it is a message, not to be called")


@pytest.mark.parametrize(
    ("wanted", "message", "fits"),
    [
        (5, 5, True),
        (5, 6, False),
        (None, None, True),
        (None, 0, False),
        (mock.ANY, 6, True),
        (int, 5, True),
        (int, "5", False),
        (object, None, True),
        (int, int, True),
        (Picky, Picky(1), True),
        (str, Picky(1), False),
        (Picky(1), Picky(1), True),
        (handler, handler, True),
        (lambda message: message > 5, 6, True),
        (lambda message: message > 5, 5, False),
        (lambda message: [], 5, False),
        (partial(eq, 5), 5, True),
        ([1, 2].__contains__, 3, False),
        (int | str, 5, True),
        (int | str, 5.0, False),
        (Optional[int], None, True),  # noqa: UP045 - as older code has it
        (Optional[int], "5", False),  # noqa: UP045
    ],
)
def test_a_message_is_what_is_wanted_or_not(wanted: Any, message: Any, fits: bool) -> None:
    assert matches(wanted, message) is fits


UserId = NewType("UserId", int)


async def is_fine(message: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("wanted", "remedy"),
    [
        (list[int], "say its class alone"),
        (tuple[int, str], "say its class alone"),
        (list[int] | None, "say its class alone"),
        (Literal["tea"], "say its class alone"),
        (UserId, "say <class 'int'>"),
        (is_fine, "must not be async"),
        (lambda message: is_fine(message), "must not be async"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine 'is_fine' was never awaited")
def test_what_would_be_true_of_nearly_anything_is_refused(wanted: Any, remedy: str) -> None:
    with pytest.raises(BadArgument, match=remedy):
        matches(wanted, "xy")


def test_a_function_that_raises_says_about_which_message() -> None:
    with pytest.raises(TypeError) as caught:
        matches(lambda message: message > 5, "tea")
    assert caught.value.__notes__ == [
        f"raised by <lambda> (test_probe.py:{matches_line()}), which the test asked about the message 'tea'"
    ]


def matches_line() -> int:
    return test_a_function_that_raises_says_about_which_message.__code__.co_firstlineno + 2


@pytest.mark.parametrize(
    ("wanted", "messages", "places"),
    [
        ((), [], []),
        (("a", "b"), ["b", "a"], [1, 0]),
        (("a", "b"), ["b"], [1]),
        (("a", "a"), ["a", "a"], [0, 1]),
        (("a", "b"), ["a", "a"], None),
        (("a",), ["x"], None),
        ((object, int, 5), [5, 6, "x"], [2, 1, 0]),
        ((object, int, 5), [5, 5, 5], [0, 1, 2]),
        ((object, int, 5), ["x", "y", 5], None),
    ],
)
def test_messages_find_their_places_if_there_is_any_way(wanted: Any, messages: Any, places: Any) -> None:
    assert match_all(wanted, messages) == places


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError


def test_errors_show_messages_in_moderation() -> None:
    assert shown("tea") == "'tea'"
    assert shown("x" * 1000) == "'" + "x" * 299 + "..."
    assert shown(Mute()) == "<a Mute whose repr raises RuntimeError>"


def test_what_is_wanted_is_said_in_words() -> None:
    assert in_words((1, 2)) == "(1, 2)"
    assert in_words(int) == "<class 'int'>"
    assert in_words(handler).startswith("what handler (test_probe.py:")
    assert in_words([1].__contains__) == "what __contains__ is true of"
    assert listed(["a", int]) == "'a', <class 'int'>"


def later() -> float:
    return asyncio.get_running_loop().time() + 20.0


@pytest.mark.anyio
async def test_what_came_since_the_last_look_is_not_waited_for() -> None:
    inbox = Inbox()
    seen = inbox.arrivals
    inbox.put(Envelope("a"))
    assert await inbox.wait_for_arrival(later(), seen)
    seen = inbox.arrivals
    inbox.end(NORMAL)
    assert await inbox.wait_for_arrival(later(), seen)
    assert not await inbox.wait_for_arrival(asyncio.get_running_loop().time(), inbox.arrivals)
    assert not await inbox.wait_for_arrival(asyncio.get_running_loop().time(), 0)  # in time is what counts


@pytest.mark.anyio
async def test_another_thread_ends_a_wait() -> None:
    inbox = Inbox()
    waiting = asyncio.create_task(inbox.wait_for_arrival(later(), 0))
    await asyncio.sleep(0)
    await asyncio.to_thread(inbox.put, Envelope("a"))
    assert await waiting
    assert inbox.take() == Envelope("a")
    assert inbox.take() is None


def test_what_comes_while_the_ignored_is_sifted_out_is_kept() -> None:
    inbox = Inbox()

    def unwanted(message: Any) -> bool:
        if message == 1:
            inbox.put(Envelope("meanwhile"))
        return bool(message == 1)

    inbox.put(Envelope(1))
    inbox.put(Envelope(2))
    inbox.ignored = (unwanted,)
    assert [envelope.message for envelope in inbox.unread()] == [2]
    assert [envelope.message for envelope in inbox.unread()] == [2, "meanwhile"]


@pytest.mark.anyio
async def test_nobody_is_told_who_no_longer_waits() -> None:
    inbox = Inbox()
    waiting = asyncio.create_task(inbox.wait_for_arrival(later(), 0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert inbox._waiters == []


def test_a_loop_that_is_closed_is_no_trouble() -> None:
    inbox = Inbox()

    async def main() -> None:
        waiting = asyncio.create_task(inbox.wait_for_arrival(later(), 0))
        await asyncio.sleep(0)
        waiters.extend(inbox._waiters)
        waiting.cancel()

    waiters: list[Any] = []
    asyncio.run(main())
    inbox._waiters = waiters  # as if it had been on its way out
    asyncio.run(asyncio.to_thread(inbox.put, Envelope("a")))
    assert inbox.take() == Envelope("a")
