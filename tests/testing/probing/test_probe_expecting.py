"""What a `TestProbe` can expect: one message, one of several, all of several, or none (M19)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from greenroom import ActorSystem, Context, OnExit
from greenroom.errors import BadArgument
from greenroom.testing import TestProbe
from greenroom.testing.probing import probe as probing

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
def test_a_probe_gives_back_the_message_it_expected(play: Play, message: Any) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        probe.ref.tell(message)
        assert await probe.expect(message) == message
        probe.ref.tell(message)
        assert await probe.expect(type(message)) == message

    play(program)


def test_a_probe_that_expects_a_type_takes_its_subclasses(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        sent = Bonus(5)
        probe.ref.tell(sent)
        got = await probe.expect(Deposit)
        assert got is sent
        assert got.amount == 5

    play(program)


@pytest.mark.parametrize(
    ("sent", "wanted"), [("other", "wanted"), (1, str), (Deposit(1), Bonus), (Deposit(1), Deposit(1)), (None, "x")]
)
def test_a_probe_that_gets_something_else_says_what_it_was(play: Play, sent: Any, wanted: Any) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        probe.ref.tell(sent)
        with pytest.raises(AssertionError) as caught:
            await probe.expect(wanted)
        assert repr(sent) in str(caught.value)
        assert repr(wanted) in str(caught.value)

    play(program)


def test_a_probe_that_gets_something_else_says_from_whom_and_what_came_after(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
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

    play(program)


def test_a_probe_can_be_told_by_a_function_what_to_expect(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
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

    play(program)


def test_a_probe_expects_one_of_several(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
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

    play(program)


def test_a_probe_expects_all_of_several_in_any_order(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
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

    play(program)


def test_a_probe_that_misses_some_of_several_says_which(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
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

    play(program)


def test_a_probe_can_fish_for_a_message(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
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

    play(program)


def test_fishing_comes_to_an_end_though_messages_keep_coming(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)

        def babble(ctx: Context, message: Any) -> None:
            probe.ref.tell(message)
            ctx.self.tell(message)

        system.spawn(babble).tell("blah")
        with pytest.raises(AssertionError, match="fished for 'sense'"):
            await probe.fish("sense", timeout=0.05)

    play(program, on_exit=OnExit.DISCARD)


def test_a_probe_expects_silence(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
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

    play(program)


def test_a_probe_hears_what_breaks_a_silence_that_it_waits_out(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        silence = asyncio.create_task(probe.expect_no(within=20.0))
        for _ in range(5):
            await asyncio.sleep(0)
        probe.ref.tell("noise")
        with pytest.raises(AssertionError, match="noise"):
            await silence

    play(program)


def unlucky(message: Any) -> bool:
    return bool(message == 13)


@pytest.mark.parametrize("unwanted", [13, unlucky, bool])
def test_a_probe_can_expect_that_one_kind_of_message_does_not_come(play: Play, unwanted: Any) -> None:
    async def program(system: ActorSystem) -> None:
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

    play(program)


@pytest.mark.parametrize("number", [1, 0.5])
def test_a_bare_number_might_be_seconds_or_a_message_and_is_refused(play: Play, number: float) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        probe.ref.tell("noise")
        with pytest.raises(BadArgument, match=f"`within={number}` for seconds, `unwanted={number}` for a message"):
            await probe.expect_no(number)
        await probe.expect_no(str.isupper)
        with pytest.raises(AssertionError, match="nothing like"):
            await probe.expect_no(str)

    play(program)


def test_a_probe_cannot_tell_of_silence_in_a_system_that_never_settles(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system, name="probe")
        system.spawn(lambda ctx, message: ctx.self.tell(message), name="busy").tell("on")
        async with probe.within(0.05):
            with pytest.raises(AssertionError, match=r"/probe cannot tell that no message comes: .*/busy"):
                await probe.expect_no()

    play(program)


def test_an_unwanted_message_is_told_of_at_once_though_the_system_never_settles(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_SETTLE_TIMEOUT", 1e6)

    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system, name="probe")
        system.spawn(lambda ctx, message: ctx.self.tell(message), name="busy").tell("on")
        system.spawn(lambda ctx, message: probe.ref.tell(message)).tell("noise")
        with pytest.raises(AssertionError, match="expected no message and got 'noise'"):
            await probe.expect_no()

    play(program)


async def babble_to(probe: TestProbe) -> None:
    while True:
        probe.ref.tell("blah")
        for _ in range(10):  # between two, the system settles
            await asyncio.sleep(0)


def test_waiting_comes_to_an_end_though_what_does_not_matter_keeps_coming(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        babbling = asyncio.create_task(babble_to(probe))
        await probe.expect_no("sense", within=0.02)
        probe.ignore("blah")
        with pytest.raises(AssertionError, match="no message within"):
            await probe.receive(timeout=0.02)
        babbling.cancel()

    play(program)


def test_a_probe_ignores_what_it_is_told_to(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
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

    play(program)
