"""Rings between two threads, and the inbox that drains those of one group of cells."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import deque
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom import ManualClock
from greenroom._core.connections.connection import Connection, ShardedInbox
from greenroom._core.connections.spscring import CLOSED, FULL, SENT, SpscRing
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom.lanes import Lane

PATIENCE = 120.0


class Thing:
    """Something that can be followed, and may hold something."""

    holds: object = None


def each_lane(size: int) -> Mapping[Lane, int]:
    return dict.fromkeys(Lane, size)


def drained(ring: SpscRing) -> list[object]:
    return [ring.pop() for _ in range(ring.count())]


class Desk:
    """One cell on a loop, which notes what it handles, with an inbox."""

    def __init__(self, burst: int = 4) -> None:
        self.loop = Loop(clock=ManualClock())  # a tick ends for want of work alone
        self.handled: list[object] = []
        self.cell: Cell = self.loop.spawn(self._take, None)
        self.inbox: ShardedInbox = self.loop.connect_inbox(each_lane(burst))

    def _take(self, subject: object, message: object) -> None:
        self.handled.append(message)

    def connect(self, size: int = 8, sender: object = None) -> Connection:
        connection = self.inbox.connect(each_lane(size), sender)
        connection.cell = self.cell
        return connection


# -- a ring


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 8, 100])
def test_a_ring_holds_exactly_its_capacity_in_order(capacity: int) -> None:  # K4
    ring = SpscRing(capacity)
    for round_ in range(3):  # all around it
        assert [ring.push((round_, number)) for number in range(capacity)] == [SENT] * capacity
        assert (ring.push("more"), ring.count()) == (FULL, capacity)
        assert drained(ring) == [(round_, number) for number in range(capacity)]


def test_a_closed_ring_takes_nothing_and_keeps_what_it_has() -> None:  # K11
    ring = SpscRing(4)
    ring.push("a")
    ring.close()
    assert (ring.push("b"), ring.is_closed(), ring.count()) == (CLOSED, True, 1)
    ring.open()
    assert (ring.push("b"), ring.is_closed()) == (SENT, False)
    assert drained(ring) == ["a", "b"]


@given(st.lists(st.sampled_from(["push", "pop", "close", "open"])), st.integers(1, 4))
def test_a_ring_does_as_a_bounded_queue_that_can_be_closed(steps: list[str], capacity: int) -> None:
    ring, model, closed = SpscRing(capacity), deque[int](), False
    for number, step in enumerate(steps):
        if step == "push":
            wanted = CLOSED if closed else FULL if len(model) == capacity else SENT
            assert ring.push(number) == wanted
            if wanted == SENT:
                model.append(number)
        elif step == "pop" and model:
            assert ring.pop() == model.popleft()
        elif step == "close":
            closed = True
            ring.close()
        elif step == "open":
            closed = False
            ring.open()
        assert (ring.count(), ring.is_closed()) == (len(model), closed)


def test_what_two_threads_pass_on_arrives_once_and_in_order() -> None:  # K4
    ring, count, taken = SpscRing(64), 5_000, list[object]()

    def take() -> None:
        while len(taken) < count:
            if ring.count():
                taken.append(ring.pop())

    taker = threading.Thread(target=take, daemon=True)
    taker.start()
    for number in range(count):
        while ring.push(number) != SENT:
            pass
    taker.join(PATIENCE)
    assert taken == list(range(count))


def test_a_ring_that_is_closed_while_another_thread_pushes_has_all_that_was_said_to_be_sent() -> None:  # K4 K11
    for _ in range(40):
        ring, sent = SpscRing(1000), list[int]()
        begun = threading.Event()

        def push(ring: SpscRing = ring, sent: list[int] = sent, begun: threading.Event = begun) -> None:
            for number in range(1000):
                if ring.push(number) != SENT:
                    return
                sent.append(number)
                begun.set()

        pusher = threading.Thread(target=push, daemon=True)
        pusher.start()
        begun.wait(PATIENCE)
        ring.close()
        before = drained(ring)
        pusher.join(PATIENCE)
        assert before + drained(ring) == sent


def test_a_ring_lets_go_of_what_it_holds() -> None:
    thing = Thing()
    gone = weakref.ref(thing)
    ring = SpscRing(4)
    ring.push(thing)
    del thing
    assert gone() is not None
    del ring
    assert gone() is None


def test_the_collector_finds_a_ring_that_holds_itself() -> None:
    thing, ring = Thing(), SpscRing(4)
    thing.holds = ring
    ring.push(thing)
    gone = weakref.ref(thing)
    del thing, ring
    gc.collect()
    assert gone() is None


# -- an inbox


def test_a_closed_inbox_leaves_messages_in_their_rings() -> None:
    desk = Desk()
    connection = desk.connect()
    connection.offer("early", Lane.DATA)
    desk.loop.run_until_idle()
    assert (desk.handled, connection.held(), desk.loop.has_work()) == ([], 1, False)
    desk.inbox.open()
    desk.loop.run_until_idle()
    assert (desk.handled, connection.held()) == (["early"], 0)


def test_a_cycle_is_control_management_control_and_data() -> None:  # K6 K12
    desk = Desk(burst=4)
    connection = desk.connect(size=100)
    for lane in Lane:
        for number in range(6):
            connection.offer((lane, number), lane)
    desk.inbox.open()
    desk.loop.run_until_idle()
    lanes = [message[0] for message in desk.handled if isinstance(message, tuple)]
    assert lanes[:12] == [Lane.CONTROL] * 2 + [Lane.MANAGEMENT] * 4 + [Lane.CONTROL] * 2 + [Lane.DATA] * 4
    for lane in Lane:
        assert [one for one in desk.handled if one[0] is lane] == [(lane, number) for number in range(6)]  # type: ignore[index]


def test_holders_take_turns_within_a_burst() -> None:  # K12
    desk = Desk(burst=4)
    greedy, modest = desk.connect(size=100), desk.connect(size=100)
    for number in range(50):
        greedy.offer(("greedy", number), Lane.DATA)
    modest.offer(("modest", 0), Lane.DATA)
    desk.inbox.open()
    desk.loop.run_until_idle()
    assert ("modest", 0) in desk.handled[:8]
    assert len(desk.handled) == 51


def test_a_flood_of_control_does_not_starve_data() -> None:  # K12
    desk = Desk(burst=4)
    connection = desk.connect(size=1000)
    for number in range(1000):
        connection.offer(number, Lane.CONTROL)
    connection.offer("data", Lane.DATA)
    desk.inbox.open()
    desk.loop.run_until_idle()
    assert desk.handled.index("data") < 100


def test_no_more_than_a_burst_waits_in_a_mailbox() -> None:
    desk = Desk(burst=4)
    connection = desk.connect(size=100)
    for number in range(50):
        connection.offer(number, Lane.DATA)
    desk.cell.hold()
    desk.inbox.open()
    desk.loop.run_until_idle()
    assert (desk.cell.queued(), connection.held(), desk.loop.has_work()) == (4, 46, False)
    desk.cell.release()
    desk.loop.run_until_idle()
    assert desk.handled == list(range(50))


def test_messages_are_in_the_ledger_from_the_moment_they_are_pushed() -> None:  # B4
    desk = Desk()
    connection = desk.connect(size=100)
    for number in range(10):
        connection.offer(number, Lane.DATA)
    before = count_loop(desk.loop)
    assert (before.sent, before.queued, before.handled) == (10, 10, 0)
    desk.inbox.open()
    desk.loop.run_until_idle()
    after = count_loop(desk.loop)
    assert (after.sent, after.queued, after.handled) == (10, 0, 10)


def test_whoever_waits_for_room_is_told_when_messages_are_taken() -> None:
    desk = Desk()
    connection = desk.connect(size=2)
    told: list[str] = []
    for number in range(2):
        connection.offer(number, Lane.DATA)
    assert connection.offer(2, Lane.DATA) == FULL
    connection.ask_for_room(lambda: told.append("first"))
    connection.ask_for_room(lambda: told.append("second"))
    desk.inbox.open()
    desk.loop.run_until_idle()
    desk.loop.run_until_idle()
    assert told == ["first", "second"]


def test_a_loop_that_closes_makes_dead_letters_of_what_the_rings_hold() -> None:
    desk = Desk()
    connection = desk.connect()
    connection.offer("late", Lane.DATA)
    desk.loop.close()
    ledger = count_loop(desk.loop)
    assert (ledger.sent, ledger.dead_lettered, ledger.queued) == (1, 1, 0)
    assert connection.offer("later", Lane.DATA) == CLOSED


def test_connections_may_be_made_while_others_take_turns() -> None:  # K4
    desk = Desk()
    threads, each = 2, 1000

    def send(sender: int) -> None:
        for number in range(each):
            connection = desk.connect(1)
            assert connection.offer((sender, number), Lane.DATA) == SENT
            connection.abandon()

    senders = [threading.Thread(target=send, args=(sender,)) for sender in range(threads)]
    for thread in senders:
        thread.start()
    desk.inbox.open()
    while any(thread.is_alive() for thread in senders):
        desk.loop.tick()
    desk.loop.run_until_idle()
    assert sorted(desk.handled) == [(sender, number) for sender in range(threads) for number in range(each)]  # type: ignore[type-var]
    assert desk.inbox.connections == []


def test_a_connection_whose_holder_is_gone_is_forgotten_when_it_is_empty() -> None:
    desk = Desk()
    connection = desk.connect()
    connection.offer("last words", Lane.DATA)
    connection.abandon()
    desk.inbox.open()
    desk.loop.run_until_idle()
    desk.inbox.bell.ring(True)
    desk.loop.run_until_idle()
    assert (desk.handled, desk.inbox.connections) == (["last words"], [])
