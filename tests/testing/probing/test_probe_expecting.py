"""What a `TestProbe` can expect, and how long it waits for it (M19)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from itertools import count
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from greenroom import ActorRef, ActorSystem, Context, OnExit
from greenroom.errors import BadArgument, InvalidDelay, WrongLoop
from greenroom.testing import TestProbe
from greenroom.testing.probing import probe as probing
from greenroom.testing.probing.inbox import Envelope

if TYPE_CHECKING:
    from tests.conftest import Play


def echo(ctx: Context, message: Any) -> None:
    ctx.reply(message)


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
    with pytest.raises(
        AssertionError, match=r"expected what <lambda> \(test_probe_expecting\.py:\d+\) is true of and got 6"
    ):
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
    with pytest.raises(
        AssertionError, match=r"fished for what <lambda> \(test_probe_expecting\.py:\d+\) is true of.*let 1 go"
    ):
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


def test_a_probe_is_not_waited_for_when_its_system_never_ran(play: Play) -> None:
    async def main() -> None:
        system = ActorSystem()
        probe = TestProbe(system)
        await system.shutdown()
        with pytest.raises(AssertionError, match="has ended"):
            await probe.receive(TOO_LONG)

    play.bare(main)


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
