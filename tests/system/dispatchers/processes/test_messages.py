"""Messages to and from worker processes: what can be sent, in which order, and how many at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from contextvars import ContextVar, copy_context
from itertools import permutations
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    AskDeadlock,
    Context,
    Lane,
    MailboxConfig,
    Process,
    Supervision,
    SystemConfig,
)
from greenroom.errors import FailedElsewhere, FrameTooLarge, NotSendable, Unhandled
from greenroom.system.dispatchers.processes.pool import executor
from greenroom.system.dispatchers.processes.pool.executor import Window
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.sending import until
from tests.system.dispatchers.processes.actors import Clerk, Counter, Echo, Order, Unreadable
from tests.system.dispatchers.processes.puppets import Bag
from tests.system.dispatchers.processes.travellers import LateTraveller, Traveller, baggage, request

ONE = SystemConfig(dispatchers={"process": Process(workers=1)}, supervision=Supervision(backoff=None))


class Ear(Actor[Any, Any]):
    """Hears, at home."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def receive(self, message: Any) -> Any:
        self.heard.append((message, self.ctx.sender))
        return ("heard", message)


async def test_it_runs_in_another_process_and_answers(system: ActorSystem) -> None:
    ref = system.spawn(Echo, dispatcher="process")
    assert await ref.ask({"a": [1, 2.5, None]}) == {"a": [1, 2.5, None]}
    pid = await ref.ask("pid")
    assert pid != os.getpid()
    assert system.dispatchers.processes == {"process": [pid]}
    assert_ledger_balanced(system)


async def test_messages_come_in_order_and_all_of_them_are_counted(system: ActorSystem) -> None:
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


async def test_asks_and_tells_among_one_another_keep_their_order(system: ActorSystem) -> None:
    ref = system.spawn(Counter, dispatcher="process")
    asked = []
    for _ in range(300):
        ref.tell("one")
        asked.append(ref.ask("count"))
    assert [await one for one in asked] == list(range(1, 301))


async def test_refs_in_messages_work_on_both_sides(system: ActorSystem) -> None:
    heard: list[Any] = []
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


async def test_what_it_finds_out_about_itself_is_what_home_knows(system: ActorSystem) -> None:
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


async def test_an_exception_comes_to_the_asker_with_its_traceback_and_the_actor_is_restarted(
    system: ActorSystem,
) -> None:
    ref = system.spawn(Echo, dispatcher="process")
    with pytest.raises(ValueError, match="on purpose") as caught:
        await ref.ask("crash")
    assert "actors.py" in str(caught.value.__cause__)
    assert await ref.ask("still there") == "still there"
    with pytest.raises(FailedElsewhere, match="odd one") as broken:
        await ref.ask("odd")
    assert broken.value.kind == "Odd"
    assert await ref.ask("and again") == "and again"


async def test_behaviors_that_are_words_mean_the_same(system: ActorSystem) -> None:
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


class Rejects:
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("never")


@pytest.mark.parametrize("message", [lambda: 1, Rejects(), [1, {"a": Rejects()}]], ids=["lambda", "object", "nested"])
async def test_a_message_that_cannot_be_pickled_is_refused_at_the_sender(system: ActorSystem, message: Any) -> None:
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


@pytest.mark.config(dispatchers={"process": Process(workers=1, frame_limit=1 << 16)}, supervision=Supervision())
async def test_a_message_over_the_frame_limit_is_refused_at_the_sender(system: ActorSystem) -> None:
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


async def test_a_reply_that_cannot_be_pickled_is_an_error_to_the_asker_alone(system: ActorSystem) -> None:
    ref = system.spawn(Echo, dispatcher="process")
    pid = await ref.ask("pid")
    with pytest.raises(NotSendable, match="top of a module"):
        await ref.ask("lambda")
    assert await ref.ask("pid") == pid
    assert system.snapshot().actors[0].restarts == 0


async def test_a_message_that_its_process_cannot_read_costs_nobody_else_anything(system: ActorSystem) -> None:
    ref = system.spawn(Bag, dispatcher="process")
    for message in (1, 2, Unreadable(), 3, 4):
        ref.tell(message)
    with pytest.raises(ImportError, match="no such module"):
        await ref.ask(Unreadable())
    assert await ref.ask("seen") == [1, 2, 3, 4]
    await system.settle()
    assert system.ledger(ref).unhandled == 2
    assert_ledger_balanced(system)


async def test_guests_that_wait_for_themselves_or_one_another_are_told_so(system: ActorSystem) -> None:
    one, two = (system.spawn(Clerk, dispatcher="process") for _ in range(2))
    with pytest.raises(AskDeadlock):
        await one.ask(("ask", one, "myself", None), timeout=None)
    with pytest.raises(AskDeadlock):
        await one.ask(("ask", two, ("ask", one, "back", None), None), timeout=None)
    with pytest.raises(AskDeadlock):
        await one.ask([("ask", two, "fine", None), ("ask", one, "myself", None)], timeout=None)
    assert await one.ask(("ask", two, "fine", None)) is None


@pytest.mark.parametrize("way", ["ask late", "await late"])
async def test_guests_that_wait_for_themselves_after_something_else_are_told_so(system: ActorSystem, way: str) -> None:
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
async def test_a_guest_that_has_given_up_waits_for_nobody(system: ActorSystem, way: str) -> None:
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


async def test_numpy_arrays_and_large_bytes_arrive_whole(system: ActorSystem) -> None:
    numpy = pytest.importorskip("numpy")
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


class Clock:
    """Stands still unless it is turned."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(executor, "monotonic", made)
    return made


def play(clock: Clock, made: Window, rounds: int, seconds: float, size: int = 10) -> None:
    """Fill the window and let it be emptied, again and again."""
    number = 0
    for _ in range(rounds):
        while room := made.room(0 if made._mark < 0 else made.size):
            number += room
            made.sent(number, room, room * size)
        clock.now += seconds
        made.done(number)


def test_it_opens_while_it_is_emptied_quickly_and_only_so_far(clock: Clock) -> None:
    made = Window()
    sizes = []
    for _ in range(20):
        play(clock, made, 1, 0.001)
        sizes.append(made.size)
    assert sizes[:4] == [2, 4, 8, 16]
    assert sizes[-1] == 16_384


def test_it_closes_when_it_is_not(clock: Clock) -> None:
    made = Window()
    play(clock, made, 10, 0.001)
    assert made.size == 1024
    play(clock, made, 3, 0.5)
    assert made.size == 128
    play(clock, made, 20, 0.5)
    assert (made.size, made.room(0), made.room(1)) == (1, 1, 0)


def test_it_stays_when_that_is_about_right(clock: Clock) -> None:
    made = Window()
    play(clock, made, 5, 0.001)
    play(clock, made, 5, 0.05)
    assert made.size == 32


def test_large_messages_take_more_of_it(clock: Clock) -> None:
    made = Window()
    play(clock, made, 20, 0.001)
    made.sent(1, 1, 1 << 21)
    assert made.room(0) == 2
    assert made.room(14) == 0


def test_there_is_no_room_for_just_a_few(clock: Clock) -> None:
    made = Window()
    play(clock, made, 8, 0.001)
    assert (made.size, made.room(200), made.room(192)) == (256, 0, 64)


def test_something_wrong_closes_it(clock: Clock) -> None:
    made = Window()
    play(clock, made, 8, 0.001)
    made.shrink()
    assert made.room(0) == 1


UNSET = "not set"
CONFIG = SystemConfig(dispatchers={"process": Process(workers=1)}, propagate=[request, baggage])


def within(value: str, action: Any, *args: Any, **kwargs: Any) -> Any:
    def do() -> Any:
        request.set(value)
        return action(*args, **kwargs)

    return copy_context().run(do)


async def test_messages_bring_them_into_a_worker() -> None:
    async with ActorSystem(config=CONFIG) as system:
        for kind in (Traveller, LateTraveller):
            ref = system.spawn(kind, dispatcher="process")
            assert await within("a", ref.ask, 1) == "a"
            assert await ref.ask(2) == UNSET
            within("b", ref.tell, 3)
        ref = system.spawn(Traveller, dispatcher="process")
        for number in range(100):
            within(str(number), ref.tell, number)
            ref.tell(number)
        expected = [(number, value) for number in range(100) for value in (str(number), UNSET)]
        assert await ref.ask("seen") == expected
        assert_ledger_balanced(system)


async def test_messages_bring_them_out_of_a_worker() -> None:
    seen: list[Any] = []

    def note(ctx: Any, message: Any) -> str:
        seen.append((message, request.get(UNSET), ctx.sender))
        return request.get(UNSET)

    async with ActorSystem(config=CONFIG) as system:
        home = system.spawn(note)
        ref = system.spawn(Traveller, dispatcher="process")
        late = system.spawn(LateTraveller, dispatcher="process")
        await within("a", ref.ask, ("tell", home, 1))
        assert await within("b", ref.ask, ("ask", home, 2)) == "b"
        assert await within("c", late.ask, ("ask", home, 3)) == "c"
        assert await within("d", late.ask, ("thread", home, 4)) == "d"
        assert await within("e", ref.ask, ("forward", home)) == "e"
        await within("f", ref.ask, ("send", home, 6))
        await within("g", late.ask, ("send", home, 7))
        await within("h", ref.ask, ("timer", 0.0, home))
        await ref.ask(("tell", home, 8))
        await until(lambda: len(seen) == 11)
        assert [one[:2] for one in seen[:3]] == [(1, "a"), (1, "a!"), (2, "b")]
        values = {one[0]: one[1] for one in seen[2:8]}
        assert values == {2: "b", 3: "c", 4: "d", ("forward", home): "e", 6: "f", 7: "g"}
        assert ("tick", "h", ref) in seen
        assert [one[1] for one in seen if one[0] == 8] == [UNSET, UNSET + "!"]


async def test_stashed_and_piped_messages_keep_them() -> None:
    async with ActorSystem(config=CONFIG) as system:
        ref = system.spawn(Traveller, dispatcher="process")
        within("a", ref.tell, ("stash", 1))
        ref.tell(("stash", 2))
        within("b", ref.tell, ("pipe", "piped"))
        within("c", ref.tell, "open")
        await system.settle()
        seen: list[Any] = []

        async def has_piped() -> bool:
            seen[:] = await ref.ask("seen")
            return ("piped", "b") in seen

        while not await has_piped():
            pass
        assert [one for one in seen if one[0] != "piped"] == [(("stash", 1), "a"), (("stash", 2), UNSET)]


async def test_what_cannot_be_sent_stays_behind_and_the_message_does_not(caplog: pytest.LogCaptureFixture) -> None:
    async with ActorSystem(config=CONFIG) as system:
        ref = system.spawn(Traveller, dispatcher="process")
        baggage.set(threading.Lock())
        for _ in range(3):
            assert await within("a", ref.ask, "baggage") == ("a", "none")
        baggage.set({"light": 1})
        assert await within("a", ref.ask, "baggage") == ("a", {"light": 1})
    told = [record.getMessage() for record in caplog.records if "'baggage'" in record.getMessage()]
    assert len(told) == 1
    assert "lock" in told[0]


async def test_a_variable_that_a_worker_cannot_find_stays_in_this_process(caplog: pytest.LogCaptureFixture) -> None:
    local: ContextVar[str] = ContextVar("local")
    config = SystemConfig(dispatchers={"process": Process(workers=1)}, propagate=[local, request])
    async with ActorSystem(config=config) as system:
        local.set("here")
        assert await within("a", system.spawn(Traveller, dispatcher="process").ask, 1) == "a"
        assert await system.spawn(lambda ctx, message: local.get(UNSET)).ask("?") == "here"
    told = [record.getMessage() for record in caplog.records if "'local'" in record.getMessage()]
    assert len(told) == 1
    assert "global of a module" in told[0]


async def test_a_request_reaches_the_log_of_a_worker(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with ActorSystem(config=CONFIG) as system:
            ref = system.spawn(Traveller, dispatcher="process")
            await within("a", ref.ask, "log")
            await ref.ask("log")
            await until(lambda: sum("of " in record.getMessage() for record in caplog.records) >= 2)
    assert [record.getMessage() for record in caplog.records if record.name == "program"] == ["of a", f"of {UNSET}"]
