"""Inbound: what other threads send is admitted exactly, keeps its order, and is never lost in between."""

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from greenroom._core.mailbox.cell import Cell
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.errors import MailboxFull
from greenroom.lanes import Lane, Overflow
from tests.core.hosts import Letters
from tests.core.mailboxes import LANES, bounded

DEADLINE = 120.0


class Worker:
    """Another thread that does one thing at a time, when told to."""

    def __init__(self) -> None:
        self._todo: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (todo := self._todo.get()) is not None:
            try:
                self._done.put((todo(), None))
            except BaseException as exc:
                self._done.put((None, exc))

    def do(self, what: Callable[..., Any], *args: Any) -> Any:
        self._todo.put(lambda: what(*args))
        result, error = self._done.get(timeout=DEADLINE)
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        self._todo.put(None)
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture
def loop(letters: Letters) -> Loop:
    return Loop(None, ManualClock(), letters)


def tell_all(cell: Cell, messages: Iterable[object], lane: Lane, refused: list[object] | None = None) -> None:
    for message in messages:
        try:
            cell.tell(message, lane=lane)
        except MailboxFull:
            if refused is None:
                raise
            refused.append(message)


# J15


@pytest.mark.parametrize("lane", LANES)
def test_the_refused_sender_gets_its_message_back(loop: Loop, worker: Worker, lane: Lane) -> None:
    cell = loop.spawn(print, None, bounded(2))
    message = object()
    worker.do(tell_all, cell, ["fill", "fill"], lane)
    with pytest.raises(MailboxFull) as caught:
        worker.do(lambda: cell.tell(message, lane=lane))
    assert caught.value.message is message
    assert (caught.value.ref, caught.value.lane, caught.value.capacity) == (cell, lane, 2)


@pytest.mark.parametrize("lane", LANES)
def test_room_promised_to_another_thread_is_not_given_to_this_one(
    loop: Loop, worker: Worker, heard: list[object], lane: Lane
) -> None:
    cell = loop.spawn(list.append, heard, bounded(2))
    cell.tell("mine", lane=lane)
    worker.do(lambda: cell.tell("theirs", lane=lane))
    with pytest.raises(MailboxFull):
        cell.tell("one too many", lane=lane)
    with pytest.raises(MailboxFull):
        worker.do(lambda: cell.tell("one too many", lane=lane))
    loop.run_until_idle()
    assert heard == ["mine", "theirs"]
    worker.do(lambda: cell.tell("again", lane=lane))
    loop.run_until_idle()
    assert heard == ["mine", "theirs", "again"]
    assert count_loop(loop).rejected == 2


def test_a_promise_is_kept_though_others_send_while_the_loop_takes_in_by_key(
    loop: Loop, letters: Letters, worker: Worker, heard: list[object]
) -> None:
    refused: list[object] = []

    def key(message: object) -> int:
        if message == 1 and threading.current_thread() is threading.main_thread():
            worker.do(tell_all, cell, [3, 4], Lane.DATA, refused)
        return 0

    cell = loop.spawn(list.append, heard, bounded(2, priority=key))
    worker.do(tell_all, cell, [1, 2], Lane.DATA, refused)
    loop.run_until_idle()
    assert letters.dead == []
    assert heard[:2] == [1, 2]
    assert sorted([*heard, *refused]) == [1, 2, 3, 4]  # type: ignore[type-var]


def test_the_last_place_is_not_given_twice_while_a_key_is_asked_for(
    loop: Loop, letters: Letters, worker: Worker, heard: list[object]
) -> None:
    refused: list[object] = []

    def key(message: object) -> int:
        if message == "mine" and not refused and threading.current_thread() is threading.main_thread():
            worker.do(tell_all, cell, ["theirs"], Lane.DATA, refused)
        return 0

    cell = loop.spawn(list.append, heard, bounded(1, priority=key))
    tell_all(cell, ["mine"], Lane.DATA, refused)
    loop.run_until_idle()
    assert letters.dead == []
    assert (len(heard), len(refused)) == (1, 1)


def test_exit_raised_by_a_key_while_taking_in_loses_nobody_elses_message(
    loop: Loop, worker: Worker, heard: list[object]
) -> None:
    def key(message: object) -> int:
        if message == "exit":
            raise SystemExit
        return 0

    cell = loop.spawn(list.append, heard, bounded(5, priority=key))
    plain = loop.spawn(list.append, heard)

    def send() -> None:
        cell.tell("before")
        cell.tell("exit")
        cell.tell("after")
        plain.tell("control", lane=Lane.CONTROL)

    worker.do(send)
    with pytest.raises(SystemExit):
        loop.tick()
    loop.run_until_idle()
    assert sorted(heard) == ["after", "before", "control"]  # type: ignore[type-var]
    assert count_loop(loop).balanced


def test_exit_raised_while_taking_in_leaves_the_rest_ahead_of_what_is_sent_meanwhile(
    loop: Loop, worker: Worker, heard: list[object]
) -> None:
    def key(message: object) -> int:
        if message == "exit":
            worker.do(tell_all, cell, ["third", "fourth"], Lane.DATA)
            raise SystemExit
        return 0

    cell = loop.spawn(list.append, heard, bounded(5, priority=key))
    worker.do(tell_all, cell, ["exit", "first", "second"], Lane.DATA)
    with pytest.raises(SystemExit):
        loop.tick()
    loop.run_until_idle()
    assert heard == ["first", "second", "third", "fourth"]


@pytest.mark.parametrize("lane", [Lane.CONTROL, Lane.MANAGEMENT, Lane.LOG])
def test_a_promise_is_kept_though_others_send_while_the_loop_takes_in_to_a_lane(
    worker: Worker, heard: list[object], lane: Lane
) -> None:
    refused: list[object] = []

    class Busybody(Letters):
        def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
            super().dead_letter(cell, message, sender, why)
            if message == "to the dead":
                worker.do(tell_all, living, [3, 4], lane, refused)

    letters = Busybody()
    loop = Loop(None, ManualClock(), letters)
    gone = loop.spawn(list.append, heard)
    living = loop.spawn(list.append, heard, bounded(2))
    loop.retire(gone)
    worker.do(gone.tell, "to the dead")
    worker.do(tell_all, living, [1, 2], lane, refused)
    loop.run_until_idle()
    assert letters.dead == ["to the dead"]
    assert heard[:2] == [1, 2]
    assert sorted([*heard, *refused]) == [1, 2, 3, 4]  # type: ignore[type-var]


@pytest.mark.parametrize("lane", LANES)
def test_drop_old_keeps_the_newest_of_what_a_thread_sent(
    loop: Loop, letters: Letters, worker: Worker, heard: list[object], lane: Lane
) -> None:
    cell = loop.spawn(list.append, heard, bounded(3, Overflow.DROP_OLD))
    for number in range(2):
        cell.tell(number, lane=lane)
    worker.do(tell_all, cell, range(2, 10), lane)
    loop.run_until_idle()
    assert heard == [7, 8, 9]
    assert sorted(letters.dropped_messages) == list(range(7))  # type: ignore[type-var]
    counts = count_loop(loop)
    assert (counts.sent, counts.dropped, counts.rejected, counts.balanced) == (10, 7, 0, True)


def test_a_notice_keeps_its_place_among_a_threads_messages(loop: Loop, worker: Worker, heard: list[object]) -> None:
    cell = loop.spawn(list.append, heard)

    def send() -> None:
        cell.tell("before")
        cell.notify("the notice")
        cell.tell("after")

    worker.do(send)
    loop.run_until_idle()
    assert heard == ["before", "the notice", "after"]


def test_a_notice_keeps_its_place_though_an_older_message_is_displaced(
    loop: Loop, worker: Worker, heard: list[object]
) -> None:
    cell = loop.spawn(list.append, heard, bounded(1, Overflow.DROP_OLD))

    def send() -> None:
        cell.tell("displaced")
        cell.notify("the notice")
        cell.tell("after")

    worker.do(send)
    loop.run_until_idle()
    assert heard == ["the notice", "after"]  # as it is when the loop's own thread sends them


@pytest.mark.parametrize("policy", list(Overflow))
def test_notices_and_orders_are_accepted_however_full_the_mailbox_is(
    loop: Loop, letters: Letters, worker: Worker, heard: list[object], policy: Overflow
) -> None:
    cell = loop.spawn(list.append, heard, bounded(1, policy))
    cell.tell("the only message")

    def send() -> None:
        for number in range(100):
            cell.notify(("notice", number))
            cell.order(lambda cell, number=number: heard.append(("order", number)))  # type: ignore[misc]

    worker.do(send)
    loop.run_until_idle()
    orders = [("order", number) for number in range(100)]
    notices = [("notice", number) for number in range(100)]
    assert heard == [*orders, "the only message", *notices]
    assert (letters.dead, letters.dropped_messages) == ([], [])
    counts = count_loop(loop)
    assert (counts.sent, counts.handled, counts.balanced) == (1, 1, True)


def test_a_send_to_a_retired_cell_is_a_dead_letter_in_its_turn(
    loop: Loop, letters: Letters, worker: Worker, heard: list[object]
) -> None:
    cell = loop.spawn(list.append, heard, bounded(6))
    worker.do(cell.tell, "in time")
    loop.retire(cell)
    for number in range(5):
        worker.do(cell.tell, number)
    worker.do(cell.notify, "no dead letter")
    tenant = loop.spawn(list.append, heard)
    tenant.tell("mine")
    loop.run_until_idle()
    assert heard == ["mine"]
    assert letters.dead == ["in time", 0, 1, 2, 3, 4]
    counts = count_loop(loop)
    assert (counts.sent, counts.dead_lettered, counts.balanced) == (7, 6, True)


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("room", [2, 1000])
def test_of_very_many_sends_to_a_retired_cell_only_a_few_wait_for_their_turn(
    loop: Loop, letters: Letters, worker: Worker, heard: list[object], room: int, lane: Lane
) -> None:
    cell = loop.spawn(list.append, heard, bounded(room))
    loop.retire(cell)
    worker.do(tell_all, cell, range(2000), lane)
    assert len(letters.dead) >= (2000 - min(room, 64) if lane is Lane.DATA else 1000)
    loop.run_until_idle()
    assert sorted(letters.dead) == list(range(2000))  # type: ignore[type-var]
    counts = count_loop(loop)
    assert (counts.sent, counts.dead_lettered, counts.balanced) == (2000, 2000, True)
    assert heard == []


def test_a_closed_loop_makes_dead_letters_of_what_was_brought_and_of_what_comes_later(
    loop: Loop, letters: Letters, worker: Worker, heard: list[object]
) -> None:
    cell = loop.spawn(list.append, heard)
    worker.do(cell.tell, "brought")
    loop.close()
    assert letters.dead == ["brought"]
    worker.do(cell.tell, "later")
    worker.do(cell.notify, "a notice is nobody's letter")
    worker.do(cell.order, lambda cell: heard.append("never"))
    assert letters.dead == ["brought", "later"]
    loop.run_until_idle()
    assert heard == []
    assert count_loop(loop).balanced


@pytest.mark.parametrize("policy", list(Overflow))
def test_a_slip_from_another_thread_learns_of_its_end_exactly_once(
    loop: Loop, worker: Worker, heard: list[object], policy: Overflow
) -> None:
    class Told(Receipt):
        def __init__(self, name: int) -> None:
            self.name = name

        def settle(self, result: object) -> None:
            told.append((self.name, "settled"))

        def discard(self, why: str) -> None:
            told.append((self.name, "discarded"))

    told: list[tuple[int, str]] = []

    def send() -> None:
        for number in range(3):
            try:
                cell.post(number, Told(number))
            except MailboxFull:
                told.append((number, "rejected"))

    cell = loop.spawn(list.append, heard, bounded(1, policy))
    worker.do(send)
    loop.run_until_idle()
    end = "rejected" if policy is Overflow.REJECT else "discarded"
    kept = 2 if policy is Overflow.DROP_OLD else 0
    assert sorted(told) == [(number, "settled" if number == kept else end) for number in range(3)]


def test_observers_are_told_of_what_other_threads_were_refused(worker: Worker) -> None:
    told: list[tuple[object, object]] = []

    class Observer:
        def mailbox_full(self, ref: object, message: object, lane: object) -> None:
            told.append((message, lane))

        def message_dropped(self, ref: object, message: object, lane: object) -> None:
            told.append((message, lane))

    hooks = ObserverHooks()
    hooks.add(Observer())
    loop = Loop(None, ManualClock(), None, hooks)
    for policy in Overflow:
        cell = loop.spawn(print, None, bounded(1, policy))
        worker.do(cell.tell, (policy, "first"))
        try:
            worker.do(cell.tell, (policy, "second"))
        except MailboxFull:
            assert policy is Overflow.REJECT
    assert told == [
        ((Overflow.REJECT, "second"), Lane.DATA),
        ((Overflow.DROP_NEW, "second"), Lane.DATA),
        ((Overflow.DROP_OLD, "first"), Lane.DATA),
    ]


def test_a_message_that_waits_to_be_taken_in_is_queued_in_the_ledger(loop: Loop, worker: Worker) -> None:
    cell = loop.spawn(print)
    worker.do(cell.tell, "on its way")
    counts = count_loop(loop)
    assert (counts.sent, counts.queued, counts.balanced) == (1, 1, True)


def test_a_sleeping_loop_is_roused_once_not_once_per_message(loop: Loop, worker: Worker) -> None:
    cell = loop.spawn(lambda _, message: None)
    roused: list[int] = []
    inbound = loop.inbound
    inbound.rouse = lambda: roused.append(threading.get_ident())
    worker.do(cell.tell, "awake: nobody to rouse")
    assert inbound.fall_asleep() is False
    loop.run_until_idle()
    for bring in (cell.tell, cell.notify, cell.order):
        roused.clear()
        assert inbound.fall_asleep() is True
        worker.do(lambda bring=bring: [bring(lambda cell: None) for _ in range(10)])
        assert len(roused) == 1
        inbound.wake()
        loop.run_until_idle()
    assert inbound.fall_asleep() is True
    inbound.wake()
    worker.do(cell.tell, "woken by something else")
    assert len(roused) == 1


def test_the_bell_rouses_a_sleeping_loop_once_and_keeps_it_awake_until_it_is_stilled(loop: Loop) -> None:
    roused: list[str] = []
    inbound = loop.inbound
    inbound.rouse = lambda: roused.append("roused")
    assert inbound.fall_asleep() is True
    inbound.ring_bell()
    inbound.ring_bell()
    assert roused == ["roused"]
    assert inbound.fall_asleep() is False
    inbound.clear_bell()
    assert inbound.fall_asleep() is True
