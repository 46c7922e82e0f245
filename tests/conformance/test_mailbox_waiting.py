"""`await ref.send(...)`: backpressure, and what becomes of those who wait (M17)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Lane,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    MonotonicClock,
)
from greenroom.errors import InvalidDelay, SendTimeout
from greenroom.testing import assert_ledger_balanced
from tests.conformance.askers import until
from tests.conformance.cast import LISTENERS, Holding, Listener, run_threads, run_threads_while_blocked
from tests.gates import turns

ONE = MailboxConfig(capacity=1)


async def sending(ref: ActorRef[Any, Any], *messages: Any, **options: Any) -> list[asyncio.Task[None]]:
    """Tasks that have begun to send, in this order."""
    tasks = []
    for message in messages:
        tasks.append(asyncio.ensure_future(ref.send(message, **options)))
        await asyncio.sleep(0)
    return tasks


async def test_send_does_not_wait_when_there_is_room(system: ActorSystem) -> None:  # case 10
    held = Holding(system, mailbox=MailboxConfig(capacity=2))
    ref = await held.begin()
    first, second = await sending(ref, 1, 2)
    assert first.done()
    assert second.done()
    assert await held.end() == [1, 2]


@pytest.mark.parametrize("lane", Lane, ids=str)
async def test_those_who_wait_for_room_are_let_in_in_order_of_arrival(
    system: ActorSystem, lane: Lane
) -> None:  # case 10, M17
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


async def test_a_send_that_waits_is_not_rejected(system: ActorSystem) -> None:  # case 10, B4
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


async def test_nobody_overtakes_those_who_wait(system: ActorSystem) -> None:  # case 10
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
async def test_no_thread_overtakes_those_who_wait(system: ActorSystem) -> None:  # case 10, J15
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    await sending(ref, 1, 2)
    with pytest.raises(MailboxFull):
        run_threads_while_blocked(lambda: ref.tell("pushed in"))
    await sending(ref, 3)
    assert await held.end() == [1, 2, 3]


async def test_waiting_in_one_lane_holds_up_no_other(system: ActorSystem) -> None:  # case 10
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    data = await sending(ref, 1, 2)
    control = await sending(ref, "now", lane=Lane.CONTROL)
    assert [task.done() for task in (*data, *control)] == [True, False, True]
    assert await held.end() == ["now", 1, 2]


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_a_cancelled_send_leaves_nothing_behind(system: ActorSystem, which: int) -> None:  # case 10
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


async def test_when_all_who_wait_have_left_the_mailbox_is_as_before(system: ActorSystem) -> None:  # case 10
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


async def test_a_send_that_waits_too_long_gives_the_message_back(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 10
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


async def test_a_send_that_got_in_is_not_given_back_later(system: ActorSystem, clock: ManualClock) -> None:  # case 10
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    tasks = await sending(ref, 1, 2, 3, timeout=3.0)
    assert await held.end() == [1, 2, 3]
    await clock.advance(10.0)
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("inf")])
async def test_a_timeout_that_cannot_be_is_refused(system: ActorSystem, timeout: float) -> None:  # J9
    ref = system.spawn(Listener, [])
    with pytest.raises(InvalidDelay):
        await ref.send("never", timeout=timeout)
    await system.settle()
    assert system.ledger(ref).sent == 0


@pytest.mark.parametrize("end", ["stop", "kill", "fail", "shutdown"])
async def test_what_waits_for_an_actor_that_ends_is_a_dead_letter(
    system: ActorSystem, end: str
) -> None:  # case 10, M17
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


async def test_a_send_to_a_dead_actor_is_a_dead_letter_at_once(system: ActorSystem) -> None:  # case 10
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


async def test_an_actor_that_waits_for_room_is_the_sender(system: ActorSystem) -> None:  # case 10, J8
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
) -> None:  # case 10
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
async def test_another_threads_loop_can_wait_for_room_too(system: ActorSystem) -> None:  # case 10, J15
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
async def test_another_threads_cancelled_send_leaves_nothing_behind(system: ActorSystem) -> None:  # case 10, J15
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


async def test_a_priority_that_cannot_be_told_is_the_waiting_senders_to_hear(system: ActorSystem) -> None:  # case 10
    held = Holding(system, mailbox=MailboxConfig(capacity=1, priority=lambda n: 0 if n == "hold" else 10 // n))
    ref = await held.begin()
    good, bad, last = await sending(ref, 1, 0, 2)
    assert await held.end() == [1, 2]
    await good
    await last
    with pytest.raises(ZeroDivisionError):
        await bad
    assert assert_ledger_balanced(system, ref).sent == 3
