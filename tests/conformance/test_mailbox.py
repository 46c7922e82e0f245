"""A mailbox that is full: who is told, what is dropped, what gets in all the same (J7)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
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
    Overflow,
    State,
)
from greenroom.errors import MessageDropped
from greenroom.testing import assert_ledger_balanced
from tests.conformance.cast import FOREIGN, Holding, Listener, run_threads, run_threads_while_blocked
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
) -> None:  # case 8
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
async def test_every_way_of_sending_hears_of_a_full_mailbox(system: ActorSystem, foreign: bool) -> None:  # case 8
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
) -> None:  # case 8
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


async def test_an_observer_that_raises_does_not_swallow_the_refusal(system: ActorSystem) -> None:  # case 8, J16
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
) -> None:  # case 9
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
) -> None:  # cases 9, 25
    async def ask_four(ref: ActorRef[Any, Any], let_go: Callable[[], object]) -> list[Any]:
        asks = [ref.ask(n, timeout=10.0) for n in range(4)]
        with pytest.raises(MessageDropped) as caught:
            await asks[lost]
        assert caught.value.ref == ref
        let_go()
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
) -> None:  # case 9
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


async def test_in_a_mailbox_with_priorities_the_oldest_is_dropped_whatever_its_key(
    system: ActorSystem,
) -> None:  # cases 4, 9
    config = MailboxConfig(capacity=3, overflow=Overflow.DROP_OLD, priority=lambda n: n if isinstance(n, int) else 0)
    held = Holding(system, mailbox=config)
    ref = await held.begin()
    for n in (1, 9, 5, 7):
        ref.tell(n)
    assert await held.end() == [5, 7, 9]
    assert assert_ledger_balanced(system, ref).dropped == 1


async def test_a_notice_is_never_what_is_dropped(system: ActorSystem) -> None:  # cases 9, 11
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
) -> None:  # case 11
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
) -> None:  # case 11
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
async def test_a_stop_in_order_gets_into_a_full_mailbox(system: ActorSystem, foreign: bool) -> None:  # case 11
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
