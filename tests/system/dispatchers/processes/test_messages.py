"""Messages to and from actors in worker processes."""

from __future__ import annotations

import asyncio
import os
from itertools import permutations
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    AskDeadlock,
    AskTimeout,
    Context,
    Lane,
    MailboxConfig,
    MailboxFull,
    Overflow,
    Process,
    Supervision,
    SystemConfig,
)
from greenroom.errors import FailedElsewhere, FrameTooLarge, NotSendable, Unhandled
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.system.dispatchers.processes.guests import Bag, Clerk, Counter, Echo, Order, Stasher, Unreadable

ONE = SystemConfig(dispatchers={"process": Process(workers=1)}, supervision=Supervision(backoff=None))


class Ear(Actor[Any, Any]):
    """Hears, at home."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def receive(self, message: Any) -> Any:
        self.heard.append((message, self.ctx.sender))
        return ("heard", message)


async def test_it_runs_in_another_process_and_answers() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Echo, dispatcher="process")
        assert await ref.ask({"a": [1, 2.5, None]}) == {"a": [1, 2.5, None]}
        pid = await ref.ask("pid")
        assert pid != os.getpid()
        assert system.dispatchers.processes == {"process": [pid]}
        assert_ledger_balanced(system)


async def test_messages_come_in_order_and_all_of_them_are_counted() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Bag, dispatcher="process", mailbox=MailboxConfig(capacity=100_000))
        sent = [index if index % 3 else (index, "text") for index in range(20_000)]
        for message in sent:
            ref.tell(message)
        await system.settle()
        assert await ref.ask("seen") == sent
        await system.settle()
        ledger = system.ledger(ref)
        assert (ledger.sent, ledger.handled) == (20_001, 20_001)
        assert_ledger_balanced(system)


async def test_asks_and_tells_among_one_another_keep_their_order() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Counter, dispatcher="process")
        asked = []
        for _ in range(300):
            ref.tell("one")
            asked.append(ref.ask("count"))
        assert [await one for one in asked] == list(range(1, 301))


async def test_refs_in_messages_work_on_both_sides() -> None:
    heard: list[Any] = []
    async with ActorSystem(config=ONE) as system:
        ear = system.spawn(Ear, heard, name="ear")
        clerk, other = system.spawn(Clerk, dispatcher="process"), system.spawn(Echo, dispatcher="process")
        clerk.tell(Order("tea", ear))
        clerk.tell(("tell", ear, 1, 2, 3))
        assert await clerk.ask(("ask", ear, "how")) == ("heard", "how")
        assert await clerk.ask(("ask", other, "there")) == "there"
        assert await clerk.ask(("same", clerk, clerk)) is True
        await clerk.ask(("send", ear, "sent"))
        await system.settle()
        assert heard == [(one, clerk) for one in (("sold", "tea"), 1, 2, 3, "how", "sent")]
        assert all(sender is clerk for _, sender in heard)
        assert_ledger_balanced(system)


async def test_a_forwarded_question_is_answered_by_the_other() -> None:
    heard: list[Any] = []
    async with ActorSystem(config=ONE) as system:
        ear, clerk = system.spawn(Ear, heard), system.spawn(Clerk, dispatcher="process")
        assert await clerk.ask(("forward", ear)) == ("heard", ("forward", ear))


async def test_what_it_finds_out_about_itself_is_what_home_knows() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Echo, dispatcher="process", name="echo", env={"colour": "red"})
        me, name, parent, path, sender, lane, env = await ref.ask("who")
        assert (me, name, parent, path, sender, lane, env) == (
            ref,
            "echo",
            None,
            "/echo",
            None,
            Lane.DATA,
            {"colour": "red"},
        )
        assert me is ref


async def test_an_exception_comes_to_the_asker_with_its_traceback_and_the_actor_is_restarted() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Echo, dispatcher="process")
        with pytest.raises(ValueError, match="on purpose") as caught:
            await ref.ask("crash")
        assert "guests.py" in str(caught.value.__cause__)
        assert await ref.ask("still there") == "still there"
        with pytest.raises(FailedElsewhere, match="odd one") as broken:
            await ref.ask("odd")
        assert broken.value.kind == "Odd"
        assert await ref.ask("and again") == "and again"


async def test_behaviors_that_are_words_mean_the_same() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Echo, dispatcher="process")
        with pytest.raises(Unhandled):
            await ref.ask("unhandled")
        for message in (1, "unhandled", 2, "unhandled", "unhandled"):
            ref.tell(message)
        await system.settle()
        assert system.ledger(ref).unhandled == 4
        assert system.ledger(ref).handled == 2
        ref.tell("stop")
        ref.tell("too late")
        assert (await ref.terminated()).kind.value == "normal"
        await system.settle()
        assert_ledger_balanced(system)
        with pytest.raises(ActorTerminated):
            await ref.ask(1)


async def test_what_is_put_aside_is_handled_after_unstash_in_its_order() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Stasher, dispatcher="process")
        for number in range(50):
            ref.tell(number)
        await system.settle()
        assert system.ledger(ref).queued == 50
        asked = ref.ask("open")
        ref.tell("later")
        assert await asked == 50
        await system.settle()
        assert await ref.ask("seen") == [*range(50), "later"]
        assert_ledger_balanced(system)


async def test_what_is_put_aside_outlives_a_restart() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Stasher, dispatcher="process")
        for message in (1, 2, "crash", 3):
            ref.tell(message)
        await system.settle()
        assert system.ledger(ref).queued == 3
        assert await ref.ask("open") == 3
        await system.settle()
        assert await ref.ask("seen") == [1, 2, 3]
        assert_ledger_balanced(system)


class Rejects:
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("never")


@pytest.mark.parametrize("message", [lambda: 1, Rejects(), [1, {"a": Rejects()}]], ids=["lambda", "object", "nested"])
async def test_a_message_that_cannot_be_pickled_is_refused_at_the_sender(message: Any) -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Echo, dispatcher="process")
        with pytest.raises(NotSendable) as caught:
            ref.tell(message)
        assert caught.value.message is message
        with pytest.raises(NotSendable):
            await ref.ask(message)
        with pytest.raises(NotSendable):
            await ref.send(message)
        with pytest.raises(NotSendable):
            await asyncio.to_thread(ref.tell, message)
        with pytest.raises(NotSendable):
            await asyncio.to_thread(ref.ask_sync, message)
        assert await ref.ask("alive") == "alive"
        await system.settle()
        assert system.ledger(ref).sent == 1
        assert_ledger_balanced(system)


async def test_a_message_over_the_frame_limit_is_refused_at_the_sender() -> None:
    config = SystemConfig(dispatchers={"process": Process(workers=1, frame_limit=1 << 16)})
    async with ActorSystem(config=config) as system:
        ref = system.spawn(Echo, dispatcher="process")
        for large in (b"x" * 100_000, "x" * 100_000, [bytearray(100_000)]):
            with pytest.raises(FrameTooLarge):
                ref.tell(large)
        with pytest.raises(FrameTooLarge, match="larger than the limit of 65,536") as caught:
            await ref.ask(b"x" * (1 << 16))
        assert caught.value.size > caught.value.limit == 1 << 16
        almost = b"x" * 60_000
        for _ in range(20):
            ref.tell(almost)
        assert await ref.ask(almost) == almost
        await system.settle()
        assert system.ledger(ref).handled == 21


async def test_a_reply_that_cannot_be_pickled_is_an_error_to_the_asker_alone() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Echo, dispatcher="process")
        pid = await ref.ask("pid")
        with pytest.raises(NotSendable, match="top of a module"):
            await ref.ask("lambda")
        assert await ref.ask("pid") == pid
        assert system.snapshot().actors[0].restarts == 0


async def test_a_message_that_its_process_cannot_read_costs_nobody_else_anything() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Bag, dispatcher="process")
        for message in (1, 2, Unreadable(), 3, 4):
            ref.tell(message)
        with pytest.raises(ImportError, match="no such module"):
            await ref.ask(Unreadable())
        assert await ref.ask("seen") == [1, 2, 3, 4]
        await system.settle()
        assert system.ledger(ref).unhandled == 2
        assert_ledger_balanced(system)


async def test_a_full_mailbox_refuses_and_a_sender_can_wait_for_room() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Counter, dispatcher="process", mailbox=MailboxConfig(capacity=10))
        for _ in range(10):
            ref.tell("one")
        with pytest.raises(MailboxFull):
            ref.tell("one")
        for _ in range(100):
            await ref.send("one")
        await system.settle()
        assert await ref.ask("count") == 110
        await system.settle()
        assert_ledger_balanced(system)


async def test_lanes_overtake() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Bag, dispatcher="process")
        ref.tell("log", lane=Lane.LOG)
        for number in range(3):
            ref.tell(number)
        ref.tell("first", lane=Lane.CONTROL)
        await system.settle()
        assert await ref.ask("seen") == ["first", 0, 1, 2, "log"]


async def test_a_mailbox_that_drops_its_oldest_does() -> None:
    async with ActorSystem(config=ONE) as system:
        box = MailboxConfig(capacity=3, overflow=Overflow.DROP_OLD)
        ref = system.spawn(Bag, dispatcher="process", mailbox=box)
        for number in range(10):
            ref.tell(number)
        await system.settle()
        assert await ref.ask("seen") == [7, 8, 9]
        assert system.ledger(ref).dropped == 7


async def test_an_ask_that_is_not_answered_in_time_fails_on_both_sides() -> None:
    async with ActorSystem(config=ONE) as system:
        ref, clerk = system.spawn(Stasher, dispatcher="process"), system.spawn(Clerk, dispatcher="process")
        with pytest.raises(AskTimeout):
            await ref.ask("put aside", timeout=0.05)
        with pytest.raises(AskTimeout):
            await clerk.ask(("ask", ref, "put aside", 0.05))


async def test_guests_that_wait_for_themselves_or_one_another_are_told_so() -> None:
    async with ActorSystem(config=ONE) as system:
        one, two = (system.spawn(Clerk, dispatcher="process") for _ in range(2))
        with pytest.raises(AskDeadlock):
            await one.ask(("ask", one, "myself", None), timeout=None)
        with pytest.raises(AskDeadlock):
            await one.ask(("ask", two, ("ask", one, "back", None), None), timeout=None)
        with pytest.raises(AskDeadlock):
            await one.ask([("ask", two, "fine", None), ("ask", one, "myself", None)], timeout=None)
        assert await one.ask(("ask", two, "fine", None)) is None


@pytest.mark.parametrize("way", ["ask late", "await late"])
async def test_guests_that_wait_for_themselves_after_something_else_are_told_so(way: str) -> None:
    async with ActorSystem(config=ONE) as system:
        one, two = (system.spawn(Clerk, dispatcher="process") for _ in range(2))
        with pytest.raises(AskDeadlock):
            await one.ask((way, one, "myself"), timeout=None)
        with pytest.raises(AskDeadlock):
            await one.ask((way, two, (way, one, "back")), timeout=None)
        assert await one.ask((way, two, "fine")) is None


async def test_a_circle_over_all_dispatchers_is_found_however_it_goes() -> None:  # case 25
    def ask_and_wait(ctx: Context, message: Any) -> Any:
        return message[1].ask_sync(message[2], timeout=None) if isinstance(message, tuple) else None

    supervision = Supervision(backoff=None, max_restarts=None)
    async with ActorSystem(config=SystemConfig(dispatchers=ONE.dispatchers, supervision=supervision)) as system:
        refs = {name: system.spawn(Clerk, dispatcher=name) for name in ("concurrent", "pinned", "process")}
        refs["parallel"] = system.spawn(ask_and_wait, dispatcher="parallel")
        rings = [ring for count in (2, 3, 4) for ring in permutations(refs, count) if ring[0] == min(ring)]
        for first, *others in rings:
            chain: Any = "the end"
            for name in reversed(others):
                chain = ("ask", refs[name], chain, None)
            circle: Any = ("ask", refs[first], "the end", None)
            for name in reversed(others):
                circle = ("ask", refs[name], circle, None)
            with pytest.raises(AskDeadlock) as told:
                await refs[first].ask(circle, timeout=None)
            assert set(told.value.cycle) == {refs[name] for name in (first, *others)}
            assert await refs[first].ask(chain, timeout=None) is None


@pytest.mark.parametrize("way", ["its own deadline", "cancelled"])
async def test_a_guest_that_has_given_up_waits_for_nobody(way: str) -> None:
    async with ActorSystem(config=ONE) as system:
        probe, gave_up, asks_back = TestProbe(system), asyncio.Event(), asyncio.Event()

        async def ask_back(ctx: Context, message: Any) -> Any:
            await gave_up.wait()
            question = guest.ask("and you?", timeout=None)
            asyncio.get_running_loop().call_soon(asks_back.set)
            heard.append(await question)

        heard: list[Any] = []
        other, end = system.spawn(ask_back), system.spawn(Echo)
        guest = system.spawn(Clerk, dispatcher="process")
        guest.tell(("give up", way, other, probe.ref, end))
        await probe.expect("gave up")
        gave_up.set()
        await asks_back.wait()
        end.stop()
        await system.settle()
        assert heard == [None]
        assert system.ledger().late_replies == 1  # what it was asked first, it has answered; nobody was there


async def test_numpy_arrays_and_large_bytes_arrive_whole() -> None:
    numpy = pytest.importorskip("numpy")
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Echo, dispatcher="process")
        array = numpy.arange(2_000_000, dtype=numpy.float64)
        assert numpy.array_equal(await ref.ask(array), array)
        assert await ref.ask(bytes(5_000_000)) == bytes(5_000_000)
        many = [numpy.full(100_000, number) for number in range(20)]
        answers = await asyncio.gather(*(ref.ask(one) for one in many))
        assert all(numpy.array_equal(one, other) for one, other in zip(many, answers, strict=True))


def test_a_program_without_asyncio_can_use_it() -> None:
    with ActorSystem(config=ONE) as system:
        ref = system.spawn(Echo, dispatcher="process")
        assert ref.ask_sync("plain") == "plain"
        for number in range(100):
            ref.tell(number)
    assert system.ledger().balanced
