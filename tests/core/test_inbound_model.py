"""Inbound against lists: one other thread offers, one step at a time, and the loop takes in."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.errors import MailboxFull
from greenroom.lanes import Lane, MailboxConfig, Overflow
from greenroom.ledger import Ledger

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
