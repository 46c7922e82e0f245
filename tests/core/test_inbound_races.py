"""Inbound with many threads at once: exact admission, and each thread's order."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.errors import MailboxFull
from greenroom.lanes import Lane, Overflow
from tests.core.hosts import Letters
from tests.core.mailboxes import LANES, bounded

DEADLINE = 120.0


@pytest.fixture
def loop(letters: Letters) -> Loop:
    return Loop(None, ManualClock(), letters)


def race(threads: int, run: Callable[[int], object], meanwhile: Callable[[], object] | None = None) -> None:
    """Have `run(number)` called by so many threads at once; call `meanwhile` on this one until all have ended."""
    barrier = threading.Barrier(threads)
    errors: list[BaseException] = []

    def start(number: int) -> None:
        try:
            barrier.wait(DEADLINE)
            run(number)
        except BaseException as exc:
            errors.append(exc)

    racing = [threading.Thread(target=start, args=(number,), daemon=True) for number in range(threads)]
    for thread in racing:
        thread.start()
    until = time.monotonic() + DEADLINE
    while meanwhile is not None and any(thread.is_alive() for thread in racing):
        assert time.monotonic() < until
        meanwhile()
    for thread in racing:
        thread.join(DEADLINE)
        assert not thread.is_alive()
    assert errors == []


# J15


def test_each_threads_messages_are_handled_in_the_order_it_sent_them(loop: Loop, heard: list[Any]) -> None:
    cell = loop.spawn(list.append, heard)

    def send(number: int) -> None:
        for count in range(50):
            cell.tell((number, count))

    race(64, send)
    assert heard == []
    loop.run_until_idle()
    assert len(heard) == 64 * 50
    for number in range(64):
        assert [count for sender, count in heard if sender == number] == list(range(50))


def test_order_holds_per_thread_and_lane_while_the_loop_takes_in(loop: Loop, heard: list[Any]) -> None:
    cell = loop.spawn(list.append, heard)

    def send(number: int) -> None:
        for count in range(200):
            cell.tell((number, count % 4, count), lane=LANES[count % 4])

    race(4, send, meanwhile=loop.tick)
    loop.run_until_idle()
    assert len(heard) == 4 * 200
    for number in range(4):
        for lane in range(4):
            sent = [count for sender, where, count in heard if (sender, where) == (number, lane)]
            assert sent == list(range(lane, 200, 4))


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("policy", list(Overflow))
def test_64_threads_race_640_messages_into_64_places_and_exactly_64_get_in(
    loop: Loop, letters: Letters, heard: list[object], policy: Overflow, lane: Lane
) -> None:
    cell = loop.spawn(list.append, heard, bounded(64, policy))
    given_back: list[object] = []

    def send(number: int) -> None:
        for count in range(10):
            try:
                cell.tell((number, count), lane=lane)
            except MailboxFull as full:
                given_back.append(full.message)

    race(64, send)
    loop.run_until_idle()
    assert len(heard) == 64
    everything = {(number, count) for number in range(64) for count in range(10)}
    elsewhere = given_back if policy is Overflow.REJECT else letters.dropped_messages
    assert len(elsewhere) == 576
    assert {*heard, *elsewhere} == everything
    counts = count_loop(loop)
    assert counts.balanced
    if policy is Overflow.REJECT:
        assert (counts.sent, counts.handled, counts.rejected, counts.dropped) == (64, 64, 576, 0)
    else:
        assert (counts.sent, counts.handled, counts.rejected, counts.dropped) == (640, 64, 0, 576)
    assert letters.dead == []


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("lane", LANES)
def test_whatever_was_admitted_while_the_loop_runs_is_handled(
    loop: Loop, letters: Letters, heard: list[object], lane: Lane, ordered: bool
) -> None:
    cell = loop.spawn(list.append, heard, bounded(4, priority=(lambda message: message[1]) if ordered else None))
    admitted: list[object] = []
    rejected: list[object] = []

    def send(number: int) -> None:
        for count in range(100):
            try:
                cell.tell((number, count), lane=lane)
            except MailboxFull:
                rejected.append((number, count))
            else:
                admitted.append((number, count))

    race(8, send, meanwhile=loop.tick)
    loop.run_until_idle()
    assert len(admitted) + len(rejected) == 800
    assert letters.dead == []
    assert sorted(heard) == sorted(admitted)  # type: ignore[type-var]
    counts = count_loop(loop)
    assert (counts.handled, counts.rejected, counts.balanced) == (len(admitted), len(rejected), True)


# What is brought while the loop ends


@pytest.mark.parametrize("attempt", range(20))
def test_what_is_sent_while_the_loop_closes_is_handled_or_a_dead_letter(letters: Letters, attempt: int) -> None:
    loop = Loop(None, ManualClock(), letters)
    handled: list[object] = []
    cell = loop.spawn(list.append, handled)
    left = [4 * 200]

    def send(number: int) -> None:
        for count in range(200):
            cell.tell((number, count))
            left[0] -= 1

    def tick_or_close() -> None:
        if left[0] > attempt * 40:
            loop.tick()
        else:
            loop.close()

    race(4, send, tick_or_close)
    loop.close()
    ledger = count_loop(loop)
    assert ledger.balanced
    assert (ledger.sent, ledger.queued) == (800, 0)
    assert len(handled) + len(letters.dead) == 800
