"""The ledger: whatever happens, every message is in exactly one column, at every moment."""

import types
from collections.abc import Generator
from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from greenroom._core.limits import Limits
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.accounting import count_cell, count_loop
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.loop import Loop
from greenroom._core.timing.timers import Timer
from greenroom.clock import ManualClock
from greenroom.errors import MailboxFull
from greenroom.exits import ends_system
from greenroom.lanes import Lane, MailboxConfig, Overflow
from greenroom.ledger import Ledger


def test_a_cell_counts_its_own_messages_and_the_loop_all_of_them() -> None:
    loop = Loop(None, ManualClock())
    one, two = loop.spawn(lambda _, message: None), loop.spawn(lambda _, message: None)
    for number in range(3):
        one.tell(number)
    two.tell("control", lane=Lane.CONTROL)
    assert (count_cell(one), count_cell(two)) == (Ledger(sent=3, queued=3), Ledger(sent=1, queued=1))
    loop.run_until_idle()
    assert (count_cell(one), count_cell(two)) == (Ledger(sent=3, handled=3), Ledger(sent=1, handled=1))
    assert count_loop(loop) == Ledger(sent=4, handled=4)
    loop.retire(one)
    assert count_loop(loop) == Ledger(sent=4, handled=4)


def test_the_message_in_hand_has_a_column_of_its_own() -> None:
    loop = Loop(None, ManualClock())
    seen: list[Ledger] = []
    cell: Cell = loop.spawn(lambda _, message: seen.append(count_cell(cell)))
    for number in range(2):
        cell.tell(number)
    cell.tell("control", lane=Lane.CONTROL)
    cell.order(lambda cell: seen.append(count_cell(cell)))
    loop.run_until_idle()
    assert seen == [
        Ledger(sent=3, queued=3),
        Ledger(sent=3, queued=2, in_hand=1),
        Ledger(sent=3, queued=1, in_hand=1, handled=1),
        Ledger(sent=3, in_hand=1, handled=2),
    ]


def test_a_message_already_handled_is_no_longer_in_hand_when_the_next_is_withdrawn() -> None:
    loop = Loop(None, ManualClock())
    seen: list[Ledger] = []

    class Withdrawn(Receipt):
        def live(self) -> bool:
            return False

        def discard(self, why: str) -> None:
            seen.append(count_cell(cell))

    cell: Cell = loop.spawn(lambda _, message: cell.post("withdrawn", Withdrawn()) if message == "plain" else None)
    cell.tell("plain")
    loop.run_until_idle()
    assert seen == [Ledger(sent=2, handled=1, dropped=1)]


@types.coroutine
def pause() -> Generator[None, None, None]:
    yield


class Reply(Receipt):
    """A receipt that can be withdrawn, and counts how often it learned of an end."""

    def __init__(self) -> None:
        self.wanted = True
        self.ends: list[str] = []

    def live(self) -> bool:
        return self.wanted

    def settle(self, result: object) -> None:
        self.ends.append("settled")

    def fail(self, cause: BaseException) -> None:
        self.ends.append("failed")

    def discard(self, why: str) -> None:
        self.ends.append(why)


WISHES = ["return", "answer", "send", "suspend", "exit"]
WISHES += ["fail", "fail and live", "retire", "retire and fail", "retire other"]
SLOTS = 4
which = st.integers(0, SLOTS - 1)


class LedgerMachine(RuleBasedStateMachine):
    """Ledger every end of every message where it happens, and compares with the ledger."""

    def __init__(self) -> None:
        super().__init__()
        machine = self

        class Tellers(Host):
            def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
                machine.look()
                if ends_system(cause):
                    raise cause
                if "live" not in str(cause):
                    machine.loop.retire(cell)

            def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
                machine.dead += 1
                machine.look()

            def dropped(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
                machine.dropped += 1
                machine.look()

            def behavior_returned(self, cell: Cell, behavior: object) -> None:
                machine.look()

            def notice(self, cell: Cell, notice: object) -> object:
                machine.look()
                return None

        self.sent = self.rejected = self.dead = self.dropped = self.handled = self.failed = self.suspended = 0
        self.unbalanced: list[Ledger] = []
        self.replies: list[Reply] = []
        self.timers: list[Timer] = []
        self.clock = ManualClock()
        self.loop = Loop(Limits(max_msgs_per_actor=3, max_actors_per_tick=5), self.clock, Tellers())
        self.cells = [self.new_cell(Overflow.REJECT, False) for _ in range(SLOTS)]

    def look(self) -> None:
        counts = count_loop(self.loop)
        if not counts.balanced:
            self.unbalanced.append(counts)

    def new_cell(self, policy: Overflow, ordered: bool) -> Cell:
        lanes = {Lane.CONTROL: 2, Lane.MANAGEMENT: 2, Lane.LOG: 2}
        mailbox = MailboxConfig(capacity=3, overflow=policy, lanes=lanes, priority=len if ordered else None)
        return self.loop.spawn(self.handle, None, mailbox)

    def handle(self, subject: object, wish: str) -> object:
        cell: Any = self.loop.visits.hand
        self.look()
        if wish == "suspend":
            return self.handle_later()
        if wish == "send":
            for lane in Lane:
                self.send(self.cells[0], "return", lane)
        if "retire other" in wish:
            self.loop.retire(self.cells[-1])
        elif "retire" in wish:
            self.loop.retire(cell)
        self.look()
        if "fail" in wish or wish == "exit":
            self.failed += 1
            raise SystemExit if wish == "exit" else ValueError(wish)
        self.handled += 1
        return "an answer" if wish == "answer" else None

    async def handle_later(self) -> None:
        self.suspended += 1
        try:
            await pause()
        except BaseException:
            self.failed += 1
            raise
        else:
            self.handled += 1
        finally:
            self.suspended -= 1
            self.look()

    def send(self, cell: Cell, wish: str, lane: Lane, receipt: Reply | None = None) -> None:
        try:
            if receipt is None:
                cell.tell(wish, None, lane)
            else:
                cell.post(wish, receipt, lane)
            self.sent += 1
        except MailboxFull:
            self.rejected += 1
            if receipt is not None:
                receipt.ends.append("rejected")
        self.look()

    @rule(which=which, policy=st.sampled_from(Overflow), ordered=st.booleans())
    def spawn(self, which: int, policy: Overflow, ordered: bool) -> None:
        self.cells[which] = self.new_cell(policy, ordered)  # the old one lives on

    @rule(which=which, wish=st.sampled_from(WISHES), lane=st.sampled_from(Lane))
    def tell(self, which: int, wish: str, lane: Lane) -> None:
        self.send(self.cells[which], wish, lane)

    @rule(which=which, wish=st.sampled_from(WISHES), lane=st.sampled_from(Lane))
    def post(self, which: int, wish: str, lane: Lane) -> None:
        reply = Reply()
        self.replies.append(reply)
        self.send(self.cells[which], wish, lane, reply)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        if self.replies:
            data.draw(st.sampled_from(self.replies)).wanted = False

    @rule(which=which)
    def notify(self, which: int) -> None:
        self.cells[which].notify("notice")

    @rule(which=which, retire=st.booleans())
    def order(self, which: int, retire: bool) -> None:
        self.cells[which].order(self.loop.retire if retire else lambda cell: self.look())

    @rule(which=which, hold=st.booleans())
    def hold_or_release(self, which: int, hold: bool) -> None:
        cell = self.cells[which]
        if hold:
            cell.hold()
        else:
            cell.release()

    @rule(
        which=which, owner=which, wish=st.sampled_from(WISHES), interval=st.sampled_from([0.0, 1.0]), rate=st.booleans()
    )
    def start_timer(self, which: int, owner: int, wish: str, interval: float, rate: bool) -> None:
        if self.cells[owner].id:
            timer = self.loop.start_timer(1.0, self.cells[which], wish, interval, rate, self.cells[owner])
            self.timers.append(timer)

    @rule(data=st.data())
    def cancel_timer(self, data: st.DataObject) -> None:
        if self.timers:
            data.draw(st.sampled_from(self.timers)).cancel()

    @rule(which=which)
    def retire(self, which: int) -> None:
        self.loop.retire(self.cells[which])

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0]))
    def tick(self, seconds: float) -> None:
        self.clock.step(self.clock.now() + seconds)
        with suppress(SystemExit):
            self.loop.tick()

    @rule()
    def run(self) -> None:
        for _ in range(200):
            if not self.loop.has_work():
                return
            self.tick(0.0)
        raise AssertionError("never idle")

    def teardown(self) -> None:
        for cell in list(self.loop.table):
            self.loop.retire(cell)
        self.run()
        counts = count_loop(self.loop)
        assert counts.balanced
        assert (counts.queued, counts.in_hand) == (0, 0)
        for reply in self.replies:
            assert len(reply.ends) == 1
        self.loop.close()
        assert self.loop.timers.count == 0

    @invariant()
    def every_message_is_in_one_column_at_every_moment(self) -> None:
        assert self.unbalanced == []
        assert count_loop(self.loop).balanced

    @invariant()
    def the_columns_say_what_happened(self) -> None:
        counts = count_loop(self.loop)
        assert (counts.handled, counts.failed, counts.dead_lettered) == (self.handled, self.failed, self.dead)
        assert (counts.rejected, counts.in_hand) == (self.rejected, self.suspended)
        withdrawn = sum("withdrawn" in reply.ends for reply in self.replies)
        # A queued tick whose timer was cancelled is dropped without anyone being told.
        assert 0 <= counts.dropped - self.dropped - withdrawn <= len(self.timers)
        assert counts.sent >= self.sent  # ticks of timers come on top
        if not self.timers:
            assert (counts.sent, counts.dropped) == (self.sent, self.dropped + withdrawn)


LedgerMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestLedgerMachine = LedgerMachine.TestCase
