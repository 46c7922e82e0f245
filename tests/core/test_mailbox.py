"""The mailbox: strict lanes, the 64th pick for those below, notices that need no room, and who is dropped for whom."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from greenroom._core.build import COMPILED
from greenroom._core.flags import LANES, PRIORITY, RECEIPTS
from greenroom._core.mailbox.mailbox import Mailbox, SideLanes, data_place
from greenroom._core.receipt import NOTICE, Receipt
from greenroom._core.scheduler.loop import Loop
from greenroom.lanes import Lane, MailboxConfig, Overflow

SIDE = [Lane.CONTROL, Lane.MANAGEMENT, Lane.LOG]


@pytest.mark.parametrize("lane", SIDE)
def test_a_lane_that_was_never_used_has_no_slots(lane: Lane) -> None:
    side = SideLanes()
    assert side.slots(lane) == 0
    assert (side.depth(lane), side.total()) == (0, 0)


@pytest.mark.parametrize("lane", SIDE)
def test_each_lane_is_a_fifo_of_its_own(lane: Lane) -> None:
    side = SideLanes()
    for number in range(10):
        for other in SIDE:
            side.push(other, (other, number), -number, 0)
    taken = [(side.first_sender(lane), side.pop(lane)) for _ in range(10)]
    assert taken == [(-number, (lane, number)) for number in range(10)]
    assert [side.depth(other) for other in SIDE] == [0 if other is lane else 10 for other in SIDE]
    assert side.total() == 20


@pytest.mark.parametrize("lane", SIDE)
def test_only_the_lane_that_is_used_gets_slots(lane: Lane) -> None:
    side = SideLanes()
    side.push(lane, "m", None, 0)
    assert [other for other in SIDE if side.slots(other) > 0] == [lane]


@pytest.mark.parametrize("lane", SIDE)
def test_a_burst_gives_its_memory_back_once_it_is_drained(lane: Lane) -> None:
    side = SideLanes()
    for number in range(500):
        side.push(lane, number, None, 0)
    assert side.slots(lane) >= 1000
    assert [side.pop(lane) for _ in range(500)] == list(range(500))
    assert side.slots(lane) <= 2
    side.push(lane, "after", None, 0)
    assert side.pop(lane) == "after"


def test_none_is_a_message_and_a_sender_like_any_other() -> None:
    side = SideLanes()
    side.push(Lane.LOG, None, None, 0)
    assert side.depth(Lane.LOG) == 1
    assert (side.first_sender(Lane.LOG), side.pop(Lane.LOG)) == (None, None)


@given(st.lists(st.sampled_from(Lane), max_size=60), st.sampled_from([0, 1, (1 << 31) - 5, (1 << 32) - 5, 1 << 62]))
@settings(deadline=None)
def test_places_sort_messages_of_all_lanes_by_arrival(arrivals: list[Lane], data_before: int) -> None:
    side = SideLanes()
    seen = data_before
    places: list[tuple[Lane, int]] = []
    for lane in arrivals:
        if lane is Lane.DATA:
            places.append((lane, data_place(seen)))
            seen += 1
        else:
            side.push(lane, "m", None, seen)
    waiting = iter(places)
    in_order = []
    for lane in arrivals:
        if lane is Lane.DATA:
            in_order.append(next(waiting)[1])
        else:
            in_order.append(side.first_place(lane))
            side.pop(lane)
    assert in_order == sorted(in_order)
    assert len(set(in_order)) == len(in_order)


def test_places_stay_in_order_after_a_lane_was_drained() -> None:
    side = SideLanes()
    side.push(Lane.LOG, "first", None, 3)
    first = side.first_place(Lane.LOG)
    side.pop(Lane.LOG)
    side.push(Lane.CONTROL, "second", None, 3)
    side.push(Lane.LOG, "third", None, 3)
    assert first < side.first_place(Lane.CONTROL) < side.first_place(Lane.LOG) < data_place(3)


CONTROL, MANAGEMENT, DATA, LOG = Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA, Lane.LOG
EMPTY = -1


def mailbox(**settings: Any) -> Mailbox:
    return Mailbox(MailboxConfig(**settings))


def take(box: Mailbox) -> tuple[Lane, object]:
    lane = box.choose()
    return Lane(lane), box.take_from(lane)


def fill(box: Mailbox, *lanes: Lane) -> None:
    for number, lane in enumerate(lanes):
        box.enqueue(lane, number, None)


def drain(box: Mailbox) -> list[object]:
    taken = []
    while box.waiting():
        taken.append(take(box)[1])
    return taken


def test_a_new_mailbox_is_empty_and_small() -> None:
    box = mailbox()
    assert (box.choose(), box.waiting(), box.queued(), box.flags) == (EMPTY, False, 0, 0)
    assert (box.mask, box.side, box.priority) == (1 if COMPILED else -1, None, None)


@pytest.mark.parametrize(
    ("flood", "waiting"),
    [(CONTROL, MANAGEMENT), (CONTROL, DATA), (CONTROL, LOG), (MANAGEMENT, DATA), (MANAGEMENT, LOG), (DATA, LOG)],
)
def test_exactly_every_64th_pick_serves_the_lane_that_waits(flood: Lane, waiting: Lane) -> None:
    box = mailbox()
    fill(box, *[waiting] * 3, *[flood] * 300)
    picks = [take(box)[0] for _ in range(200)]
    assert [number for number, lane in enumerate(picks, 1) if lane is waiting] == [64, 128, 192]


def test_the_64th_pick_serves_the_oldest_message_of_all_lower_lanes() -> None:
    box = mailbox()
    fill(box, DATA, LOG, MANAGEMENT, LOG, DATA, MANAGEMENT, *[CONTROL] * 400)
    lower = [message for message in (take(box)[1] for _ in range(6 * 64)) if isinstance(message, int) and message < 6]
    assert lower == [0, 1, 2, 3, 4, 5]


def test_a_pick_that_passes_nobody_over_does_not_count() -> None:
    box = mailbox()
    fill(box, *[CONTROL] * 100)
    for _ in range(90):
        take(box)
    fill(box, DATA, *[CONTROL] * 100)
    assert [take(box)[0] for _ in range(65)] == [*[CONTROL] * 63, DATA, CONTROL]


PLAIN_AND_KEYED = pytest.mark.parametrize("settings", [{}, {"priority": str}], ids=["plain", "keyed"])


@PLAIN_AND_KEYED
def test_the_oldest_of_the_lower_lanes_may_be_a_notice(settings: dict[str, Any]) -> None:
    # Notices queue in order of arrival with the data lane, so this one is older than the log message.
    box = mailbox(**settings)
    box.enqueue_notice("notice")
    box.enqueue(LOG, "log", None)
    fill(box, *[CONTROL] * 64)
    for _ in range(63):
        take(box)
    assert take(box) == (DATA, "notice")


@PLAIN_AND_KEYED
def test_a_log_message_older_than_a_notice_is_served_first(settings: dict[str, Any]) -> None:
    box = mailbox(**settings)
    box.enqueue(DATA, "m", None)
    box.enqueue(LOG, "log", None)
    box.enqueue_notice("notice")
    assert take(box) == (DATA, "m")
    fill(box, *[CONTROL] * 64)
    taken = [take(box) for _ in range(63)]  # with the pick above, which passed the log lane over, that makes 64
    assert taken[-1] == (LOG, "log")


@PLAIN_AND_KEYED
def test_a_notice_is_marked_takes_no_room_and_counts_nowhere(settings: dict[str, Any]) -> None:
    box = mailbox(capacity=1, **settings)
    box.enqueue_notice("a")
    assert (box.depth(DATA), box.queued(), box.waiting(), box.pushed - box.noticed) == (0, 0, True, 0)
    assert box.sender_of(box.choose()) is NOTICE


def test_the_quick_way_in_is_as_wide_as_the_capacity_whatever_notices_stand_there() -> None:
    box = mailbox(capacity=3)
    widths = [box.limit - box.count]
    box.enqueue_notice("a")
    box.enqueue_notice("b")
    widths.append(box.limit - box.count)
    take(box)
    widths.append(box.limit - box.count)
    assert widths == [3, 3, 3]
    box.enqueue(DATA, "m", None)
    assert box.limit - box.count == 2


@pytest.mark.parametrize("notices", [0, 2])
def test_the_quick_way_in_is_shut_when_the_mailbox_is_closed(notices: int) -> None:
    box = mailbox()
    for number in range(notices):
        box.enqueue_notice(number)
    box.close()
    assert box.limit == 0
    box.enqueue_notice("late")
    assert drain(box) == [*range(notices), "late"]
    assert box.limit == 0


def test_the_quick_way_in_is_shut_for_a_lane_ordered_by_a_key() -> None:
    box = mailbox(priority=abs)
    assert (box.limit, box.flags) == (0, PRIORITY)
    fill(box, DATA)
    box.enqueue_notice("a")
    drain(box)
    assert (box.limit, box.flags) == (0, PRIORITY)


def bounded(**settings: Any) -> tuple[Any, list[object]]:
    """A cell and what it has handled."""
    handled: list[object] = []
    return Loop().spawn(list.append, handled, MailboxConfig(**settings)), handled


LANE_BOUNDS = [(DATA, {"capacity": 3}), *((lane, {"lanes": {lane: 3}}) for lane in (CONTROL, MANAGEMENT, LOG))]
EVERY_LANE = pytest.mark.parametrize(
    ("lane", "bound"),
    [*LANE_BOUNDS, (DATA, {"capacity": 3, "priority": abs})],
    ids=["DATA", "CONTROL", "MANAGEMENT", "LOG", "KEY"],
)


@EVERY_LANE
@pytest.mark.parametrize("policy", Overflow)
def test_a_notice_enters_however_full_the_mailbox_is(lane: Lane, bound: dict[str, Any], policy: Overflow) -> None:
    cell, handled = bounded(overflow=policy, **bound)
    for number in range(3):
        cell.tell(number, None, lane)
    cell.notify("notice")
    cell.loop.run_until_idle()
    # It stands with DATA: behind what was queued there or above, ahead of the log.
    assert handled == (["notice", 0, 1, 2] if lane is LOG else [0, 1, 2, "notice"])
    assert cell.sent() == 3


class Waiting(NamedTuple):
    """A message or notice in the model."""

    arrival: int
    lane: Lane
    message: Any
    sender: object
    notice: bool


class MailboxAgainstList(RuleBasedStateMachine):
    """A mailbox and one list of everything that waits, searched anew for every answer."""

    keyed = False
    capacity = 5

    @initialize()
    def begin(self) -> None:
        self.box = mailbox(capacity=self.capacity, priority=(lambda message: message % 3) if self.keyed else None)
        self.model: list[Waiting] = []
        self.arrivals = 0
        self.passed = 0
        self.pushed = 0
        self.closed = False

    @rule(lane=st.sampled_from(Lane), receipt=st.booleans(), count=st.sampled_from([1, 1, 2, 5, 40, 100]))
    def enqueue(self, lane: Lane, receipt: bool, count: int) -> None:
        for _ in range(count):
            sender: object = Receipt() if receipt else ("sender", self.arrivals)
            self.box.enqueue(lane, self.arrivals, sender)
            self._arrive(lane, sender, False)
            self.pushed += lane is DATA

    @rule()
    def enqueue_notice(self) -> None:
        self.box.enqueue_notice(self.arrivals)
        self._arrive(DATA, NOTICE, True)

    def _arrive(self, lane: Lane, sender: object, notice: bool) -> None:
        self.model.append(Waiting(self.arrivals, lane, self.arrivals, sender, notice))
        self.arrivals += 1

    @rule(count=st.sampled_from([1, 1, 3, 30, 64, 130]))
    def take(self, count: int) -> None:
        for _ in range(count):
            chosen = self.box.choose()
            if not self.model:
                assert chosen == EMPTY
                return
            self._check_choice(chosen)
            sender, message = self.box.sender_of(chosen), self.box.take_from(chosen)
            first = self._next_of(Lane(chosen), message)
            assert message == first.message
            assert sender is first.sender
            self.model.remove(first)

    def _check_choice(self, chosen: int) -> None:
        lanes = {waiting.lane for waiting in self.model}
        top = max(lanes)
        if len(lanes) > 1:
            self.passed += 1
        if self.passed < 64:
            assert chosen == top
            return
        self.passed = 0
        heads = [self._next_of(lane) for lane in lanes if lane < top]
        if any(head.notice for head in heads):
            assert chosen in lanes - {top}  # which of them, a test of its own tells
        else:
            assert chosen == min(heads).lane

    def _next_of(self, lane: Lane, message: object = None) -> Waiting:
        """What comes next in `lane`; where a key decides, `message` tells whether a notice's turn has come."""
        inside = [waiting for waiting in self.model if waiting.lane is lane]
        if not (self.keyed and lane is DATA):
            return inside[0]
        notices = [waiting for waiting in inside if waiting.notice]
        if notices and (self.box.sender_of(DATA) is NOTICE if message is None else notices[0].message == message):
            return notices[0]
        return min(
            (waiting for waiting in inside if not waiting.notice), key=lambda one: (one.message % 3, one.arrival)
        )

    def _messages(self, *lanes: Lane) -> list[Waiting]:
        return [waiting for waiting in self.model if waiting.lane in lanes and not waiting.notice]

    @precondition(lambda self: any(not waiting.notice for waiting in self.model))
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(sorted({one.lane for one in self._messages(*Lane)})))
        oldest = self._messages(lane)[0]
        message, sender = self.box.evict(lane)
        assert message == oldest.message
        assert sender is oldest.sender
        self.model.remove(oldest)

    @rule()
    def close(self) -> None:
        self.box.close()
        self.closed = True

    @invariant()
    def they_count_alike(self) -> None:
        box = self.box
        assert {lane: box.depth(lane) for lane in Lane} == {lane: len(self._messages(lane)) for lane in Lane}
        assert box.queued() == len(self._messages(*Lane))
        assert box.waiting() == bool(self.model)
        assert box.pushed - box.noticed == self.pushed
        assert box.closed == self.closed

    @invariant()
    def the_quick_way_is_as_wide_as_it_should_be(self) -> None:
        notices = sum(waiting.notice for waiting in self.model)
        assert self.box.limit == (0 if self.closed or self.keyed else self.capacity + notices)

    @invariant()
    def the_alert_tells_what_is_not_plain(self) -> None:
        receipts = [
            one for one in self.model if one.lane is DATA and isinstance(one.sender, Receipt) and not self.keyed
        ]
        side = [waiting for waiting in self.model if waiting.lane is not DATA]
        assert self.box.receipts == len(receipts)
        assert bool(self.box.flags & RECEIPTS) == bool(receipts)
        assert bool(self.box.flags & LANES) == bool(side)
        assert bool(self.box.flags & PRIORITY) == self.keyed


class KeyedMailboxAgainstList(MailboxAgainstList):
    """The same, with a data lane ordered by a key."""

    keyed = True


SETTINGS = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestMailboxAgainstList = MailboxAgainstList.TestCase
TestMailboxAgainstList.settings = SETTINGS
TestKeyedMailboxAgainstList = KeyedMailboxAgainstList.TestCase
TestKeyedMailboxAgainstList.settings = SETTINGS


def test_messages_can_be_taken_in_and_let_go_by_the_dozen() -> None:
    box = mailbox()
    receipt = Receipt()
    box.take_in([1, 2, 3, 4], [None, receipt, "me", None])
    assert (box.depth(DATA), box.receipts, box.flags & RECEIPTS, box.pushed) == (4, 1, RECEIPTS, 4)
    box.drop_first(2)
    assert (box.receipts, box.flags & RECEIPTS) == (0, 0)
    assert drain(box) == [3, 4]


def test_a_notice_among_those_that_are_let_go_gives_its_room_back() -> None:
    box = mailbox(capacity=2)
    box.enqueue(DATA, 1, None)
    box.enqueue_notice("notice")
    box.drop_first(2)
    assert (box.limit, box.notices, box.count) == (2, 0, 0)
