"""Inbound: what other threads send is admitted exactly, keeps its order, and is never lost in between."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from greenroom._core.delivery.intake import Entry, Intake
from greenroom._core.mailbox.cell import Cell
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.errors import MailboxFull
from greenroom.lanes import Lane, MailboxConfig, Overflow
from greenroom.ledger import Ledger
from tests.core.kit import LANES, Letters, bounded

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
        inbound.note_awake()
        loop.run_until_idle()
    assert inbound.fall_asleep() is True
    inbound.note_awake()
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


ROOM = {Lane.CONTROL: 1, Lane.MANAGEMENT: 2, Lane.DATA: 3, Lane.LOG: 4}
POLICIES = list(Overflow)


class Model:
    """One mailbox: its lanes as lists, and what another thread has sent but the loop has not taken in."""

    def __init__(self, policy: Overflow) -> None:
        self.policy = policy
        self.lanes: dict[Lane, list[object]] = {lane: [] for lane in Lane}
        self.brought: dict[Lane, list[object]] = {lane: [] for lane in Lane}
        self.orders: list[object] = []


class InboundAgainstLists(RuleBasedStateMachine):
    """Cells are held, so that what is taken in stays where it is until `run` lets them handle it."""

    def __init__(self) -> None:
        super().__init__()
        self.todo: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self.done: SimpleQueue[str | BaseException] = SimpleQueue()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()
        self.dead: list[object] = []
        self.dropped: list[object] = []
        self.loop = Loop(None, ManualClock(), self.host())
        self.handled: list[Any] = []
        self.models = [Model(policy) for policy in POLICIES]
        self.cells = [self.spawn(policy) for policy in POLICIES]
        self.sent = self.rejected = 0
        self.expected_handled = 0
        self.expected_dead: list[object] = []
        self.expected_dropped: list[object] = []

    def teardown(self) -> None:
        self.todo.put(None)
        self.thread.join(120)
        assert not self.thread.is_alive()

    def work(self) -> None:
        while (step := self.todo.get()) is not None:
            try:
                step()
                self.done.put("done")
            except MailboxFull:
                self.done.put("full")
            except BaseException as exc:
                self.done.put(exc)

    def elsewhere(self, step: Callable[[], Any]) -> str | BaseException:
        """Do `step` on the other thread."""
        self.todo.put(step)
        return self.done.get(timeout=120.0)

    def host(self) -> Host:
        machine = self

        class Letters(Host):
            def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
                machine.dead.append(message)

            def dropped(self, cell: Cell, message: object, sender: object, lane: object) -> None:
                machine.dropped.append(message)

        return Letters()

    def spawn(self, policy: Overflow) -> Cell:
        lanes: dict[Lane, int] = {lane: room for lane, room in ROOM.items() if lane is not Lane.DATA}
        mailbox = MailboxConfig(capacity=ROOM[Lane.DATA], overflow=policy, lanes=lanes)
        cell = self.loop.spawn(list.append, self.handled, mailbox)
        cell.hold()
        return cell

    @rule(which=st.integers(0, 2), lane=st.sampled_from(Lane))
    def offer(self, which: int, lane: Lane) -> None:
        cell, model = self.cells[which], self.models[which]
        message = (lane, self.sent + self.rejected)
        fate = self.elsewhere(lambda: cell.tell(message, lane=lane))
        brought = model.brought[lane]
        taken = [entry for entry in model.lanes[lane] + brought if not is_notice(entry)]
        if model.policy is Overflow.DROP_OLD:
            brought.append(message)
            if len(brought) > ROOM[lane]:
                self.expected_dropped.append(brought.pop(0))
        elif len(taken) < ROOM[lane]:
            brought.append(message)
        elif model.policy is Overflow.DROP_NEW:
            self.expected_dropped.append(message)
        else:
            assert fate == "full"
            self.rejected += 1
            return
        assert fate == "done"
        self.sent += 1

    @rule(which=st.integers(0, 2), lane=st.sampled_from(Lane))
    def tell_from_the_loops_own_thread(self, which: int, lane: Lane) -> None:
        cell, model = self.cells[which], self.models[which]
        message = (lane, self.sent + self.rejected)
        # What another thread sent to a mailbox that drops its oldest has no place there yet.
        promised = [] if model.policy is Overflow.DROP_OLD else model.brought[lane]
        full = len([entry for entry in model.lanes[lane] + promised if not is_notice(entry)]) >= ROOM[lane]
        try:
            cell.tell(message, lane=lane)
        except MailboxFull:
            assert full
            assert model.policy is Overflow.REJECT
            self.rejected += 1
            return
        self.sent += 1
        if not full:
            model.lanes[lane].append(message)
        elif model.policy is Overflow.DROP_OLD:
            self.push_out(model, lane, message)
        else:
            assert model.policy is Overflow.DROP_NEW
            self.expected_dropped.append(message)

    @rule(which=st.integers(0, 1))
    def notify(self, which: int) -> None:
        notice = ("notice", self.sent)
        assert self.elsewhere(lambda: self.cells[which].notify(notice)) == "done"
        self.models[which].brought[Lane.DATA].append(notice)

    @rule(which=st.integers(0, 2))
    def order(self, which: int) -> None:
        order = ("order", self.sent)
        assert self.elsewhere(lambda: self.cells[which].order(lambda cell: self.handled.append(order))) == "done"
        self.models[which].orders.append(order)

    @rule()
    def take_in(self) -> None:
        self.loop.run_until_idle()
        expected_orders = [order for model in self.models for order in model.orders]
        assert sorted(self.handled) == sorted(expected_orders)  # type: ignore[type-var]
        self.handled.clear()
        for model in self.models:
            model.orders.clear()
            for lane in Lane:
                for message in model.brought[lane]:
                    if len(model.lanes[lane]) >= ROOM[lane] and model.policy is Overflow.DROP_OLD:
                        self.push_out(model, lane, message)
                    else:
                        model.lanes[lane].append(message)
                model.brought[lane].clear()

    def push_out(self, model: Model, lane: Lane, message: object) -> None:
        self.expected_dropped.append(model.lanes[lane].pop(0))
        model.lanes[lane].append(message)

    @rule(which=st.integers(0, 2))
    def run(self, which: int) -> None:
        self.take_in()
        cell, model = self.cells[which], self.models[which]
        cell.release()
        self.loop.run_until_idle()
        cell.hold()
        for lane in Lane:
            names = (lane, "notice") if lane is Lane.DATA else (lane,)
            assert [entry for entry in self.handled if entry[0] in names] == model.lanes[lane]
            self.expected_handled += len([entry for entry in model.lanes[lane] if not is_notice(entry)])
            model.lanes[lane].clear()
        self.handled.clear()

    @rule(which=st.integers(0, 2))
    def retire(self, which: int) -> None:
        """What was brought to it becomes dead letters too, when that is taken in."""
        if self.models[which].orders:
            self.take_in()
        self.loop.retire(self.cells[which])
        model = self.models[which]
        queued = [entry for lane in Lane for entry in model.lanes[lane] + model.brought[lane]]
        self.expected_dead += [entry for entry in queued if not is_notice(entry)]
        self.models[which] = Model(model.policy)
        self.cells[which] = self.spawn(model.policy)

    @invariant()
    def told_of_every_message_that_was_dropped_or_died(self) -> None:
        if not self.loop.has_work():
            assert sorted(self.dropped) == sorted(self.expected_dropped)  # type: ignore[type-var]
            assert sorted(self.dead) == sorted(self.expected_dead)  # type: ignore[type-var]

    @invariant()
    def every_message_is_in_one_column(self) -> None:
        counts = count_loop(self.loop)
        assert counts.balanced
        if not self.loop.has_work():
            queued = sum(not is_notice(entry) for model in self.models for lane in Lane for entry in model.lanes[lane])
            assert counts == Ledger(
                sent=self.sent,
                handled=self.expected_handled,
                dead_lettered=len(self.expected_dead),
                dropped=len(self.expected_dropped),
                queued=queued,
                rejected=self.rejected,
            )


def is_notice(entry: Any) -> bool:
    return bool(entry[0] == "notice")


InboundAgainstLists.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestInboundAgainstLists = InboundAgainstLists.TestCase


class Thing:
    """Something that can be followed."""


def on_another_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def put_number(intake: Intake, number: int) -> None:
    intake.put("cell", "lane", number, None)


def take(intake: Intake) -> Entry | None:
    intake.begin()
    if not intake.has_next():
        return None
    entry = intake.first()
    intake.drop_first()
    return entry


def taken(intake: Intake) -> list[object]:
    found: list[object] = []
    while (entry := take(intake)) is not None:
        found.append(entry[2])
    return found


def test_entries_come_out_in_the_order_they_were_put_in() -> None:
    intake = Intake()
    for number in range(5):
        put_number(intake, number)
    assert taken(intake) == [0, 1, 2, 3, 4]


def test_an_entry_comes_out_with_all_its_parts() -> None:
    intake = Intake()
    parts = (Thing(), Thing(), Thing(), Thing())
    intake.put(*parts)
    assert take(intake) == parts


def test_an_empty_one_has_nothing_to_take_and_nothing_waiting() -> None:
    intake = Intake()
    assert not intake.waiting()
    assert take(intake) is None
    put_number(intake, 1)
    assert intake.waiting()
    take(intake)
    assert not intake.waiting()
    assert take(intake) is None


def test_entries_can_be_looked_at_and_stay() -> None:
    intake = Intake()
    for number in range(3):
        put_number(intake, number)
    assert [entry[2] for entry in intake] == [0, 1, 2]
    assert taken(intake) == [0, 1, 2]


def test_the_first_can_be_dropped_when_it_is_done_with() -> None:
    intake = Intake()
    for number in range(3):
        put_number(intake, number)
    intake.drop_first()
    assert taken(intake) == [1, 2]


def test_what_is_put_in_after_all_was_taken_comes_out_too() -> None:
    intake = Intake()
    for round_number in range(3):
        put_number(intake, round_number)
        assert taken(intake) == [round_number]


def test_each_thread_finds_its_own_order_kept_and_nothing_is_lost() -> None:
    intake = Intake()
    threads, each = 8, 2000
    begin = threading.Barrier(threads + 1)

    def bring(thread: int) -> None:
        begin.wait()
        for number in range(each):
            intake.put(thread, None, number, None)

    bringers = [threading.Thread(target=bring, args=(thread,)) for thread in range(threads)]
    for bringer in bringers:
        bringer.start()
    begin.wait()
    found: dict[int, list[int]] = {thread: [] for thread in range(threads)}
    while sum(map(len, found.values())) < threads * each:
        entry = take(intake)
        if entry is not None:
            found[entry[0]].append(entry[2])
    for bringer in bringers:
        bringer.join()
    assert found == {thread: list(range(each)) for thread in range(threads)}
    assert not intake.waiting()


@pytest.mark.parametrize("part", range(4))
def test_what_is_taken_or_dropped_is_kept_alive_no_longer(part: int) -> None:
    intake = Intake()
    for leave in (take, Intake.drop_first):
        thing = Thing()
        alive = weakref.ref(thing)
        parts: list[object] = [None] * 4
        parts[part] = thing
        intake.put(*parts)
        del thing, parts
        assert alive() is not None
        leave(intake)
        gc.collect()
        assert alive() is None


@pytest.mark.parametrize("bringer_drops_last", [False, True])
@pytest.mark.parametrize("leave", [take, Intake.drop_first], ids=["take", "drop_first"])
@pytest.mark.parametrize("owner_takes", [False, True])
def test_references_that_change_threads_are_counted_exactly(
    owner_takes: bool, leave: Callable[[Intake], object], bringer_drops_last: bool
) -> None:
    intake, things = Intake(), [Thing() for _ in range(4)]
    before = [sys.getrefcount(thing) for thing in things]
    rounds = 200

    def bring() -> None:
        for _ in range(rounds):
            intake.put(*things)

    def drop() -> None:
        for _ in range(rounds):
            leave(intake)

    for work, is_elsewhere in ((bring, owner_takes), (drop, not owner_takes)):
        if is_elsewhere:
            on_another_thread(work)
        else:
            work()
    assert [sys.getrefcount(thing) for thing in things] == before
    alive = [weakref.ref(thing) for thing in things]
    intake.put(*things)
    if bringer_drops_last:
        on_another_thread(partial(leave, intake))
        things.clear()
    else:
        things.clear()
        on_another_thread(partial(leave, intake))
    gc.collect()
    assert [one() for one in alive] == [None] * 4


def test_what_is_in_it_goes_when_it_goes() -> None:
    intake, thing = Intake(), Thing()
    alive = weakref.ref(thing)
    intake.put(thing, thing, thing, thing)
    del intake, thing
    gc.collect()
    assert alive() is None


def test_the_garbage_collector_sees_a_ring_that_leads_through_it() -> None:
    intake, thing = Intake(), Thing()
    alive = weakref.ref(thing)
    thing.holds = intake  # type: ignore[attr-defined]
    intake.put(None, None, thing, None)
    del intake, thing
    gc.collect()
    assert alive() is None


def test_what_comes_after_the_beginning_waits_for_the_next_time() -> None:
    intake = Intake()
    put_number(intake, 1)
    put_number(intake, 2)
    intake.begin()
    seen: list[object] = []
    while intake.has_next():
        seen.append(next(iter(intake))[2])
        put_number(intake, 3)
        intake.drop_first()
    assert seen == [1, 2]
    assert taken(intake) == [3, 3]
