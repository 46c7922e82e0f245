"""A mailbox that is full: who is told, what is dropped, who waits for room, what gets in all the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Context,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    MonotonicClock,
    Overflow,
    State,
)
from greenroom.errors import InvalidDelay, MessageDropped, SendTimeout
from greenroom.testing import assert_ledger_balanced
from tests.conformance.sending import (
    FOREIGN,
    LISTENERS,
    Holding,
    Listener,
    run_threads,
    run_threads_while_blocked,
    until,
)
from tests.conftest import Play
from tests.gates import turns


def room_for(many: int, lane: Lane = Lane.DATA, **more: Any) -> MailboxConfig:
    """A mailbox whose `lane` holds `many` messages, and every other lane is large."""
    return MailboxConfig(capacity=many, **more) if lane is Lane.DATA else MailboxConfig(lanes={lane: many}, **more)


class Watcher:
    """An observer that writes down what became of messages, and on which thread it was told."""

    def __init__(self) -> None:
        self.full: list[tuple[Any, Any, Any]] = []
        self.dropped: list[tuple[Any, Any, Any]] = []
        self.threads: set[int] = set()

    def mailbox_full(self, ref: Any, message: Any, lane: Any) -> None:
        self.threads.add(threading.get_ident())
        self.full.append((ref, message, lane))

    def message_dropped(self, ref: Any, message: Any, lane: Any) -> None:
        self.threads.add(threading.get_ident())
        self.dropped.append((ref, message, lane))


def told(ref: ActorRef[Any, Any], message: Any, lane: Lane) -> None:
    ref.tell(message, lane=lane)


def told_by_a_thread(ref: ActorRef[Any, Any], message: Any, lane: Lane) -> None:
    run_threads_while_blocked(lambda: ref.tell(message, lane=lane))


WAYS = [told, pytest.param(told_by_a_thread, marks=pytest.mark.real)]
Way = Callable[[ActorRef[Any, Any], Any, Lane], None]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lane", Lane, ids=str)
async def test_a_second_tell_to_a_mailbox_of_one_gives_the_message_back(
    system: ActorSystem, lane: Lane, way: Way
) -> None:  # case 8, J7
    watcher = Watcher()
    system.observers.add(watcher)
    held = Holding(system, mailbox=room_for(1, lane))
    ref = await held.begin()  # the message in hand takes no room
    refused = ["second"]
    way(ref, "first", lane)
    with pytest.raises(MailboxFull) as caught:
        way(ref, refused, lane)
    assert caught.value.message is refused
    assert caught.value.ref == ref
    assert caught.value.lane is lane
    assert caught.value.code == "mailbox_full"
    assert watcher.full == [(ref, refused, lane)]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.queued, ledger.in_hand) == (2, 1, 1)
    assert await held.end() == ["first"]
    way(ref, "third", lane)  # there is room again
    await system.settle()
    assert held.heard == ["first", "third"]
    assert assert_ledger_balanced(system, ref).rejected == 1


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_every_way_of_sending_hears_of_a_full_mailbox(system: ActorSystem, foreign: bool) -> None:  # case 8, J7
    held = Holding(system, mailbox=MailboxConfig(capacity=1))
    ref = await held.begin()
    ref.tell("first")

    def shift() -> None:
        with pytest.raises(MailboxFull) as caught:
            ref << "shifted"
        assert caught.value.message == "shifted"

    def ask() -> None:
        with pytest.raises(MailboxFull) as caught:
            ref.ask_sync("asked")
        assert caught.value.message == "asked"

    if foreign:
        await run_threads(shift, ask)
    else:
        shift()
        asked = ref.ask("asked")  # never raises from the call
        with pytest.raises(MailboxFull) as caught:
            await asked
        assert caught.value.message == "asked"
    assert await held.end() == ["first"]
    assert system.ledger(ref).rejected == 2


@pytest.mark.parametrize("catches", [True, False])
@pytest.mark.parametrize("suspends", [True, False])
async def test_a_sending_actor_goes_on_if_it_catches_and_fails_if_it_does_not(
    system: ActorSystem, catches: bool, suspends: bool
) -> None:  # case 8, J7
    class Sender(Actor[Any, str]):
        async def receive(self, target: ActorRef[Any, Any]) -> str:
            if suspends:
                await asyncio.sleep(0)
            try:
                target << 1 << 2 << 3
            except MailboxFull as full:
                if not catches:
                    raise
                return f"{full.message} came back"
            return "all went in"

    held = Holding(system, mailbox=MailboxConfig(capacity=2))
    target = await held.begin()
    sender = system.spawn(Sender)
    if catches:
        assert await sender.ask(target) == "3 came back"
        assert sender.state is State.RUNNING
    else:
        with pytest.raises(MailboxFull):
            await sender.ask(target)
        assert (await sender.terminated()).kind is ExitKind.FAIL
        assert system.ledger(sender).failed == 1
    assert await held.end() == [1, 2]
    assert held.senders == [sender, sender]


async def test_an_observer_that_raises_does_not_swallow_the_refusal(system: ActorSystem) -> None:  # case 8, J16, J7
    class Broken:
        def mailbox_full(self, ref: Any, message: Any, lane: Any) -> None:
            raise RuntimeError("observers should not")

    system.observers.add(Broken())
    held = Holding(system, mailbox=MailboxConfig(capacity=1))
    ref = await held.begin()
    ref.tell("first")
    for _ in range(2):
        with pytest.raises(MailboxFull):
            ref.tell("again")
    await held.end()
    assert system.ledger(ref).rejected == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lane", Lane, ids=str)
@pytest.mark.parametrize(
    ("policy", "dropped", "heard"),
    [(Overflow.DROP_OLD, 0, [1, 2, 3]), (Overflow.DROP_NEW, 3, [0, 1, 2])],
    ids=["drop_old", "drop_new"],
)
async def test_a_dropping_policy_drops_exactly_one_for_one_too_many(
    system: ActorSystem, policy: Overflow, dropped: int, heard: list[int], lane: Lane, way: Way
) -> None:  # case 9, J7
    watcher = Watcher()
    system.observers.add(watcher)
    held = Holding(system, mailbox=room_for(3, lane, overflow=policy))
    ref = await held.begin()
    for n in range(4):
        way(ref, n, lane)
    assert await held.end() == heard
    assert watcher.dropped == [(ref, dropped, lane)]
    assert watcher.full == []
    for ledger in (system.ledger(ref), system.ledger()):
        assert ledger.balanced
        assert (ledger.sent, ledger.handled, ledger.dropped, ledger.rejected) == (5, 4, 1, 0)
    assert system.dead_letters.count == 0


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize(("policy", "lost"), [(Overflow.DROP_OLD, 0), (Overflow.DROP_NEW, 3)])
async def test_an_ask_that_is_dropped_fails_at_once(
    system: ActorSystem, policy: Overflow, lost: int, foreign: bool
) -> None:  # cases 9 and 25, J7
    async def ask_four(ref: ActorRef[Any, Any], release: Callable[[], object]) -> list[Any]:
        asks = [ref.ask(n, timeout=10.0) for n in range(4)]
        with pytest.raises(MessageDropped) as caught:
            await asks[lost]
        assert caught.value.ref == ref
        release()
        return [await ask for ask in asks if ask is not asks[lost]]

    held = Holding(system, mailbox=MailboxConfig(capacity=3, overflow=policy))
    ref = await held.begin()
    if foreign:
        aio = asyncio.get_running_loop()
        asking = ask_four(ref, lambda: aio.call_soon_threadsafe(held.released.set))
        answers = await asyncio.to_thread(asyncio.run, asking)
    else:
        answers = await ask_four(ref, held.released.set)
    await system.settle()
    assert answers == held.heard == [n for n in range(4) if n != lost]
    assert assert_ledger_balanced(system, ref).dropped == 1


@pytest.mark.parametrize("policy", [Overflow.DROP_OLD, Overflow.DROP_NEW], ids=str)
@pytest.mark.parametrize("capacity", [1, 2, 7])
@pytest.mark.parametrize(
    "foreign", [0, pytest.param(25, marks=pytest.mark.real), pytest.param(50, marks=pytest.mark.real)]
)
async def test_a_flood_keeps_the_newest_or_the_oldest(
    system: ActorSystem, policy: Overflow, capacity: int, foreign: int
) -> None:  # case 9, J7
    """The last of them are a thread's."""
    many = 50
    watcher = Watcher()
    system.observers.add(watcher)
    held = Holding(system, mailbox=MailboxConfig(capacity=capacity, overflow=policy))
    ref = await held.begin()

    def send(first: int, last: int) -> None:
        for n in range(first, last):
            ref.tell(n)

    send(0, many - foreign)
    if foreign:
        run_threads_while_blocked(lambda: send(many - foreign, many))
    heard = await held.end()
    assert heard == (list(range(many))[-capacity:] if policy is Overflow.DROP_OLD else list(range(capacity)))
    dropped = [message for _, message, _ in watcher.dropped]
    assert sorted(dropped + heard) == list(range(many))
    assert assert_ledger_balanced(system, ref).dropped == many - capacity


async def test_in_a_mailbox_with_priorities_the_oldest_is_dropped_whatever_its_key(system: ActorSystem) -> None:
    # cases 4 and 9, J7
    config = MailboxConfig(capacity=3, overflow=Overflow.DROP_OLD, priority=lambda n: n if isinstance(n, int) else 0)
    held = Holding(system, mailbox=config)
    ref = await held.begin()
    for n in (1, 9, 5, 7):
        ref.tell(n)
    assert await held.end() == [5, 7, 9]
    assert assert_ledger_balanced(system, ref).dropped == 1


async def test_a_notice_is_never_what_is_dropped(system: ActorSystem) -> None:  # cases 9 and 11, J7
    other = system.spawn(Listener, [])
    held = Holding(system, mailbox=MailboxConfig(capacity=2, overflow=Overflow.DROP_OLD))
    ref = await held.begin(lambda ctx: ctx.watch(other))
    ref.tell(0)
    other.stop()
    await other.terminated()
    await turns()  # so that the notice stands there, if it comes from another loop
    for n in (1, 2, 3):
        ref.tell(n)
    assert await held.end() == [("terminated", other), 2, 3]
    assert assert_ledger_balanced(system, ref).dropped == 2


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize(
    ("order", "kind"),
    [
        (lambda ref: ref.stop(), ExitKind.NORMAL),
        (lambda ref: ref.kill(), ExitKind.KILLED),
        (lambda ref: ref.fail(ValueError("enough")), ExitKind.FAIL),
    ],
    ids=["stop", "kill", "fail"],
)
async def test_an_order_is_taken_however_full_the_mailbox_is(
    system: ActorSystem, order: Callable[[ActorRef[Any, Any]], object], kind: ExitKind, foreign: bool
) -> None:  # case 11, J7
    held = Holding(system, mailbox=MailboxConfig(capacity=2))
    ref = await held.begin()
    ref << 1 << 2
    with pytest.raises(MailboxFull):
        ref.tell(3)
    if foreign:
        await run_threads(lambda: order(ref))
    else:
        order(ref)
    held.released.set()
    assert (await ref.terminated()).kind is kind
    await system.settle()
    assert held.heard == []  # it overtook them
    assert [letter.message for letter in system.dead_letters.recent()] == [1, 2]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.dead_lettered, ledger.rejected) == (3, 2, 1)


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("policy", list(Overflow), ids=str)
async def test_a_notice_is_taken_however_full_the_mailbox_is(
    system: ActorSystem, policy: Overflow, foreign: bool
) -> None:  # case 11, J7
    other = system.spawn(Listener, [])
    another = system.spawn(Listener, [])

    def watch(ctx: Context) -> None:
        ctx.watch(other)
        ctx.watch(another, message="another ended")

    held = Holding(system, mailbox=MailboxConfig(capacity=2, overflow=policy))
    ref = await held.begin(watch)
    ref << 1 << 2
    for one in (other, another):
        if foreign:
            await run_threads(one.stop)
        else:
            one.stop()
        await one.terminated()
    if policy is Overflow.REJECT:
        with pytest.raises(MailboxFull):  # notices make no room either
            ref.tell(3)
    assert await held.end() == [1, 2, ("terminated", other), "another ended"]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.handled) == (3, 3)  # notices are in no ledger


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_a_stop_in_order_gets_into_a_full_mailbox(system: ActorSystem, foreign: bool) -> None:  # case 11, J7
    held = Holding(system, mailbox=MailboxConfig(capacity=2))
    ref = await held.begin()
    ref << 1 << 2
    if foreign:
        await run_threads(lambda: ref.stop(after_queued=True))
        await asyncio.sleep(0)
    else:
        ref.stop(after_queued=True)
    held.released.set()
    await ref.terminated()
    assert held.heard == [1, 2]


ONE = MailboxConfig(capacity=1)


async def sending(ref: ActorRef[Any, Any], *messages: Any, **options: Any) -> list[asyncio.Task[None]]:
    """Tasks that have begun to send, in this order."""
    tasks = []
    for message in messages:
        tasks.append(asyncio.ensure_future(ref.send(message, **options)))
        await asyncio.sleep(0)
    return tasks


async def test_send_does_not_wait_when_there_is_room(system: ActorSystem) -> None:  # case 10, M17
    held = Holding(system, mailbox=MailboxConfig(capacity=2))
    ref = await held.begin()
    first, second = await sending(ref, 1, 2)
    assert first.done()
    assert second.done()
    assert await held.end() == [1, 2]


@pytest.mark.parametrize("lane", Lane, ids=str)
async def test_those_who_wait_for_room_are_let_in_in_order_of_arrival(system: ActorSystem, lane: Lane) -> None:
    # case 10, M17
    config = ONE if lane is Lane.DATA else MailboxConfig(lanes={lane: 1})
    held = Holding(system, mailbox=config)
    ref = await held.begin()
    tasks = await sending(ref, *range(20), lane=lane)
    assert [task.done() for task in tasks] == [True] + [False] * 19
    assert system.ledger(ref).queued == 1
    heard = await held.end()
    await asyncio.gather(*tasks)
    await system.settle()
    assert heard == list(range(20))
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.handled) == (21, 21)


async def test_a_send_that_waits_is_not_rejected(system: ActorSystem) -> None:  # case 10, B4, M17
    """`rejected` are those given back to their senders, and observers hear `mailbox_full` of those refused."""
    full: list[Any] = []

    class Watcher:
        def mailbox_full(self, ref: Any, message: Any, lane: Any) -> None:
            full.append(message)

    system.observers.add(Watcher())
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    await sending(ref, 1, 2, 3)
    assert await held.end() == [1, 2, 3]
    assert system.ledger(ref).rejected == 0
    assert full == []


async def test_nobody_overtakes_those_who_wait(system: ActorSystem) -> None:  # case 10, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    await sending(ref, 1, 2)
    with pytest.raises(MailboxFull):
        ref.tell("pushed in")
    with pytest.raises(MailboxFull):
        await ref.ask("pushed in as well")
    await sending(ref, 3)
    assert await held.end() == [1, 2, 3]


@pytest.mark.real
async def test_no_thread_overtakes_those_who_wait(system: ActorSystem) -> None:  # case 10, J15, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    await sending(ref, 1, 2)
    with pytest.raises(MailboxFull):
        run_threads_while_blocked(lambda: ref.tell("pushed in"))
    await sending(ref, 3)
    assert await held.end() == [1, 2, 3]


async def test_waiting_in_one_lane_holds_up_no_other(system: ActorSystem) -> None:  # case 10, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    data = await sending(ref, 1, 2)
    control = await sending(ref, "now", lane=Lane.CONTROL)
    assert [task.done() for task in (*data, *control)] == [True, False, True]
    assert await held.end() == ["now", 1, 2]


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_a_cancelled_send_leaves_nothing_behind(system: ActorSystem, which: int) -> None:  # case 10, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    ref.tell("first")
    tasks = await sending(ref, 0, 1, 2, timeout=60.0)
    tasks[which].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[which]
    assert system.snapshot().timers == 2
    assert await held.end() == ["first", *(n for n in range(3) if n != which)]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.handled, ledger.dropped, ledger.dead_lettered) == (4, 4, 0, 0)
    assert system.snapshot().timers == 0
    ref.tell("and on")
    await system.settle()
    assert held.heard[-1] == "and on"


async def test_when_all_who_wait_have_left_the_mailbox_is_as_before(system: ActorSystem) -> None:  # case 10, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    ref.tell("first")
    for task in await sending(ref, *range(10)):
        task.cancel()
    await asyncio.sleep(0)
    assert await held.end() == ["first"]
    for n in range(3):
        ref.tell(n)
        await system.settle()
    assert held.heard == ["first", 0, 1, 2]


async def test_a_send_that_waits_too_long_gives_the_message_back(system: ActorSystem, clock: ManualClock) -> None:
    # case 10, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    ref.tell("first")
    message = ["second"]
    late, patient = await sending(ref, message, "third", timeout=3.0)
    at_once = (await sending(ref, "now or never", timeout=0.0))[0]
    await clock.advance(0.0)
    with pytest.raises(SendTimeout):
        await at_once
    await clock.advance(2.9)
    assert not late.done()
    patient.cancel()
    await clock.advance(0.2)
    with pytest.raises(SendTimeout) as caught:
        await late
    assert caught.value.message is message
    assert caught.value.ref == ref
    assert caught.value.code == "send_timeout"
    assert isinstance(caught.value, TimeoutError)
    assert system.snapshot().timers == 0
    assert await held.end() == ["first"]
    assert assert_ledger_balanced(system, ref).sent == 2


async def test_a_send_that_got_in_is_not_given_back_later(system: ActorSystem, clock: ManualClock) -> None:
    # case 10, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    tasks = await sending(ref, 1, 2, 3, timeout=3.0)
    assert await held.end() == [1, 2, 3]
    await clock.advance(10.0)
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("inf")])
async def test_a_timeout_that_cannot_be_is_refused(system: ActorSystem, timeout: float) -> None:  # J9, M17
    ref = system.spawn(Listener, [])
    with pytest.raises(InvalidDelay):
        await ref.send("never", timeout=timeout)
    await system.settle()
    assert system.ledger(ref).sent == 0


@pytest.mark.parametrize("end", ["stop", "kill", "fail", "shutdown"])
async def test_what_waits_for_an_actor_that_ends_is_a_dead_letter(system: ActorSystem, end: str) -> None:
    # case 10, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    tasks = await sending(ref, 1, 2, 3)
    if end == "fail":
        ref.fail(ValueError("enough"))
    elif end == "shutdown":
        system.stop()
    else:
        getattr(ref, end)()
    held.released.set()
    await ref.terminated()
    await asyncio.gather(*tasks)  # no exception, as with `tell`
    assert sorted(letter.message for letter in system.dead_letters.recent()) == [1, 2, 3]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.dead_lettered) == (4, 3)


async def test_a_send_to_a_dead_actor_is_a_dead_letter_at_once(system: ActorSystem) -> None:  # case 10, M17
    ref = system.spawn(Listener, [], mailbox=ONE)
    ref.stop()
    await ref.terminated()
    for n in range(3):
        await ref.send(n)
    assert [letter.message for letter in system.dead_letters.recent()] == [0, 1, 2]
    assert assert_ledger_balanced(system, ref).dead_lettered == 3


class Sender(Actor[Any, str]):
    """Sends from its handler, and says how it went."""

    def __init__(self, target: ActorRef[Any, Any]) -> None:
        self.target = target

    async def receive(self, message: Any) -> str:
        await self.target.send(message)
        return f"sent {message}"


async def test_an_actor_that_waits_for_room_is_the_sender(system: ActorSystem) -> None:  # case 10, J8, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    senders = [system.spawn(Sender, ref) for _ in range(5)]
    asks = [senders[0].ask(0)]
    assert await asks[0] == "sent 0"
    for number in range(1, 5):
        asks.append(senders[number].ask(number))
        await until(lambda: system.ledger(senders[number]).in_hand)  # noqa: B023 - it waits for room
        await turns(1)
    await held.end()
    assert [await ask for ask in asks] == [f"sent {n}" for n in range(5)]
    assert held.heard == list(range(5))
    assert held.senders == senders


@pytest.mark.parametrize("gently", [True, False])
async def test_a_sender_that_ends_while_it_waits_leaves_nothing_behind(
    system: ActorSystem, clock: ManualClock, gently: bool
) -> None:  # case 10, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    ref.tell("first")
    sender = system.spawn(Sender, ref)
    sender.tell("second")
    await clock.advance(0.0)
    if gently:
        sender.stop()
        await clock.advance(6.0)  # it is cancelled at its stop deadline
    else:
        sender.kill()
    await sender.terminated()
    assert await held.end() == ["first"]
    assert assert_ledger_balanced(system, ref).sent == 2


@pytest.mark.parametrize("listener", LISTENERS)
async def test_a_hundred_senders_and_a_small_mailbox_lose_nothing(
    system: ActorSystem, listener: type[Actor[Any, Any]]
) -> None:  # M17
    heard: list[tuple[int, int]] = []
    ref = system.spawn(listener, heard, mailbox=MailboxConfig(capacity=3))

    async def send_all(number: int) -> None:
        for n in range(10):
            await ref.send((number, n))

    await asyncio.gather(*(send_all(number) for number in range(100)))
    await system.settle()
    assert len(heard) == 1000
    for number in range(100):
        assert [n for who, n in heard if who == number] == list(range(10))
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.handled) == (1000, 1000)


@pytest.mark.real
async def test_another_threads_loop_can_wait_for_room_too(system: ActorSystem) -> None:  # case 10, J15, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()

    async def send_all() -> None:
        async with asyncio.timeout(120.0):
            for n in range(20):
                await ref.send(n)

    thread = asyncio.ensure_future(run_threads(lambda: asyncio.run(send_all())))
    while system.ledger(ref).queued < 1:  # noqa: ASYNC110 - the first is there
        await asyncio.sleep(0)
    held.released.set()
    await thread
    await system.settle()
    assert held.heard == list(range(20))
    assert assert_ledger_balanced(system, ref).handled == 21


@pytest.mark.real
@pytest.mark.config(clock=MonotonicClock())
async def test_another_threads_cancelled_send_leaves_nothing_behind(system: ActorSystem) -> None:  # case 10, J15, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    ref.tell("first")

    async def give_up() -> None:
        with pytest.raises(SendTimeout):
            await ref.send("second", timeout=0.01)
        task = asyncio.ensure_future(ref.send("third"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    await run_threads(lambda: asyncio.run(give_up()))
    assert await held.end() == ["first"]
    assert assert_ledger_balanced(system, ref).sent == 2
    assert system.snapshot().timers == 0


async def test_a_priority_that_cannot_be_told_is_the_waiting_senders_to_hear(system: ActorSystem) -> None:
    # case 10, M17
    held = Holding(system, mailbox=MailboxConfig(capacity=1, priority=lambda n: 0 if n == "hold" else 10 // n))
    ref = await held.begin()
    good, bad, last = await sending(ref, 1, 0, 2)
    assert await held.end() == [1, 2]
    await good
    await last
    with pytest.raises(ZeroDivisionError):
        await bad
    assert assert_ledger_balanced(system, ref).sent == 3


@pytest.mark.real
@pytest.mark.parametrize("lane", [Lane.DATA, Lane.CONTROL], ids=str)
@pytest.mark.parametrize("policy", list(Overflow), ids=str)
async def test_64_threads_that_race_into_a_mailbox_of_64_fill_it_exactly(
    system: ActorSystem, policy: Overflow, lane: Lane
) -> None:  # case 12, J15, J7
    lanes: dict[Lane, int] = {} if lane is Lane.DATA else {lane: 64}
    mailbox = MailboxConfig(capacity=64, lanes=lanes, overflow=policy)
    held = Holding(system, mailbox=mailbox)
    ref = await held.begin()
    admitted: list[tuple[int, int]] = []
    rejected: list[Any] = []

    def send(number: int) -> None:
        for n in range(10):
            try:
                ref.tell((number, n), lane=lane)
            except MailboxFull as full:
                rejected.append(full.message)
            else:
                admitted.append((number, n))

    await run_threads(*(partial(send, number) for number in range(64)))
    heard = await held.end()
    assert len(heard) == 64
    assert len(admitted) + len(rejected) == 640
    ledger = assert_ledger_balanced(system, ref)
    if policy is Overflow.REJECT:
        assert sorted(heard) == sorted(admitted)
        assert (ledger.sent, ledger.rejected, ledger.dropped) == (65, 576, 0)
    else:
        assert rejected == []
        assert (ledger.sent, ledger.rejected, ledger.dropped) == (641, 0, 576)
    for number in range(64):
        mine = [n for who, n in heard if who == number]
        assert mine == sorted(mine)


@pytest.mark.real
@pytest.mark.parametrize("priority", [None, lambda message: message[1]], ids=["fifo", "priority"])
async def test_threads_racing_with_an_actor_that_keeps_up_lose_nothing(system: ActorSystem, priority: Any) -> None:
    # case 12, J15, J7
    heard: list[tuple[int, int]] = []
    ref = system.spawn(Listener, heard, mailbox=MailboxConfig(capacity=64, priority=priority))
    rejected: list[Any] = []

    def send(number: int) -> None:
        for n in range(10):
            try:
                ref.tell((number, n))
            except MailboxFull as full:
                rejected.append(full.message)

    race = asyncio.ensure_future(run_threads(*(partial(send, number) for number in range(64))))
    for number in range(64, 200):  # the loop's own thread takes part
        send(number)
        await asyncio.sleep(0)
    await race
    await system.settle()
    everything = [(number, n) for number in range(200) for n in range(10)]
    assert sorted(heard + rejected) == everything
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.handled, ledger.rejected) == (len(heard), len(rejected))


@pytest.mark.real
@pytest.mark.parametrize("many", [1, 3])
async def test_threads_that_end_the_actor_in_the_middle_of_a_race_lose_nothing(system: ActorSystem, many: int) -> None:
    # case 12, J7
    """What comes too late is a dead letter; what finds no room is given back; the rest is handled."""
    heard: list[tuple[int, int]] = []
    ref = system.spawn(Listener, heard, mailbox=MailboxConfig(capacity=16))
    rejected: list[Any] = []

    def send(number: int) -> None:
        for n in range(20):
            try:
                ref.tell((number, n))
            except MailboxFull as full:
                rejected.append(full.message)
            if number < many and n == 10:
                ref.stop()

    await run_threads(*(partial(send, number) for number in range(32)))
    await ref.terminated()
    await system.settle()
    dead = [letter.message for letter in system.dead_letters.recent()]
    assert sorted(heard + rejected + dead) == [(number, n) for number in range(32) for n in range(20)]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.handled, ledger.rejected, ledger.dead_lettered) == (len(heard), len(rejected), len(dead))


@pytest.mark.real
@pytest.mark.parametrize("policy", list(Overflow), ids=str)
def test_threads_racing_with_a_shutdown_find_a_column_for_every_message(play: Play, policy: Overflow) -> None:
    # case 12, J7
    heard: list[tuple[int, int]] = []
    rejected: list[Any] = []

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Listener, heard, mailbox=MailboxConfig(capacity=16, overflow=policy))

        def send(number: int) -> None:
            for n in range(20):
                try:
                    ref.tell((number, n))
                except MailboxFull as full:
                    rejected.append(full.message)
                if number == n == 10:
                    system.stop()

        await run_threads(*(partial(send, number) for number in range(16)))
        await system.stopped()

    ledger = play(program).ledger()
    assert ledger.sent + ledger.rejected == 320
    assert (ledger.handled, ledger.rejected) == (len(heard), len(rejected))
    assert ledger.dead_lettered + ledger.dropped == 320 - len(heard) - len(rejected)


@pytest.mark.real
async def test_room_that_was_promised_in_vain_is_given_to_those_who_wait(system: ActorSystem) -> None:  # case 10, J7
    """A thread's message that turns out to have no priority leaves its place to whoever waits for one."""
    heard: list[int] = []
    ref = system.spawn(Listener, heard, mailbox=MailboxConfig(capacity=1, priority=lambda n: 10 // n))
    await ref.started()
    run_threads_while_blocked(lambda: ref.tell(0))
    async with asyncio.timeout(120.0):
        await ref.send(5)
    await system.settle()
    assert heard == [5]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.handled, ledger.dead_lettered) == (1, 1)
