"""A data lane ordered by a user's key: smallest first, equals by arrival, notices neither overtake nor starve (M15)."""

from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from greenroom._core.mailbox.prioritylane import PriorityLane
from greenroom._core.receipt import NOTICE
from greenroom._core.scheduler.loop import Loop
from greenroom.lanes import MailboxConfig


class Job(NamedTuple):
    """A message with a key that is meant for ordering, and a name that must never be."""

    key: Any
    name: object = None


def key_of(job: Job) -> Any:
    return job.key


def lane_of(*jobs: Job) -> PriorityLane:
    lane = PriorityLane(key_of)
    for place, job in enumerate(jobs):
        lane.push(job, f"sender of {place}", place)
    return lane


def drain(lane: PriorityLane) -> list[Any]:
    taken = []
    while lane.waiting:
        taken.append(lane.pop())
    return taken


def test_the_smallest_key_is_served_first() -> None:
    jobs = [Job(key) for key in (5, 1, 9, 0, -3, 7)]
    assert drain(lane_of(*jobs)) == sorted(jobs)


def test_equal_keys_are_served_in_order_of_arrival() -> None:  # M15
    # The names cannot be compared with one another: nothing but key and arrival may decide.
    jobs = [Job(number % 3, object()) for number in range(30)]
    assert drain(lane_of(*jobs)) == sorted(jobs, key=key_of)


def test_each_message_comes_with_its_sender() -> None:
    lane = lane_of(Job(2), Job(1))
    assert (lane.first_sender(), lane.first_place(), lane.pop()) == ("sender of 1", 1, Job(1))
    assert (lane.first_sender(), lane.first_place(), lane.pop()) == ("sender of 0", 0, Job(2))


def test_the_key_is_asked_once_for_a_message() -> None:
    asked: list[int] = []

    def key(message: int) -> int:
        asked.append(message)
        return -message

    lane = PriorityLane(key)
    for place, message in enumerate((1, 2, 3)):
        lane.push(message, None, place)
    assert drain(lane) == [3, 2, 1]
    assert asked == [1, 2, 3]


def test_a_key_function_that_raises_tells_the_sender_and_adds_nothing() -> None:
    lane = lane_of(Job(1))
    with pytest.raises(AttributeError):
        lane.push("no job", None, 1)
    assert (len(lane), drain(lane)) == (1, [Job(1)])


@pytest.mark.parametrize("key", ["x", None, object(), (1,)])
def test_a_key_that_compares_with_no_other_tells_the_sender_and_adds_nothing(key: object) -> None:
    jobs = [Job(number) for number in (4, 2, 3, 1, 0, 5)]
    lane = lane_of(*jobs)
    with pytest.raises(TypeError):
        lane.push(Job(key), None, 6)
    assert (len(lane), drain(lane)) == (6, sorted(jobs))


def test_keys_that_compare_with_some_others_only_lose_no_message() -> None:
    # 1, "a" against 1, 2 is only found out when 0 has gone; a deadline that may be None does this.
    lane = lane_of(Job((0,)), Job((1, "a")))
    accepted = [Job((0,)), Job((1, "a"))]
    try:
        lane.push(Job((1, 2)), None, 2)
        accepted.append(Job((1, 2)))
    except TypeError:
        pass
    assert sorted(map(repr, drain(lane))) == sorted(map(repr, accepted))


def test_keys_that_compare_with_some_others_only_do_not_stop_the_loop() -> None:
    handled: list[object] = []
    loop = Loop()
    cell = loop.spawn(lambda subject, job: handled.append(job.key), None, MailboxConfig(priority=key_of))
    cell.tell(Job((0,)))
    cell.tell(Job((1, "a")))
    accepted = 2
    try:
        cell.tell(Job((1, 2)))
        accepted += 1
    except TypeError:
        pass
    loop.run_until_idle()
    assert len(handled) == accepted


def test_the_oldest_is_found_whatever_its_key() -> None:
    lane = lane_of(Job(9, "oldest"), Job(1, "next"), Job(5, "last"))
    assert lane.pop_oldest() == (Job(9, "oldest"), "sender of 0")
    assert lane.pop_oldest() == (Job(1, "next"), "sender of 1")
    assert drain(lane) == [Job(5, "last")]


def test_a_notice_waits_for_the_messages_that_stood_before_it() -> None:
    lane = lane_of(Job(1), Job(2), Job(3))
    lane.push_notice("notice", NOTICE, 3)
    assert drain(lane) == [Job(1), Job(2), Job(3), "notice"]


def test_a_notice_has_its_mark_where_a_message_has_its_sender() -> None:
    lane = PriorityLane(key_of)
    lane.push_notice("notice", NOTICE, 7)
    assert lane.first_sender() is NOTICE
    assert lane.first_place() == 7
    assert lane.pop() == "notice"


def test_a_notice_does_not_count_as_a_message() -> None:
    lane = PriorityLane(key_of)
    assert not lane.waiting
    lane.push_notice("notice", NOTICE, 0)
    assert (len(lane), lane.waiting) == (0, True)


def test_notices_keep_their_order_among_themselves() -> None:
    lane = lane_of(Job(1))
    lane.push_notice("first", NOTICE, 1)
    lane.push(Job(0), None, 2)
    lane.push_notice("second", NOTICE, 3)
    assert [taken for taken in drain(lane) if isinstance(taken, str)] == ["first", "second"]


def test_a_notice_does_not_starve_behind_later_and_more_urgent_messages() -> None:
    lane = lane_of(Job(0))
    lane.push_notice("notice", NOTICE, 1)
    assert lane.pop() == Job(0)
    for place in range(2, 10):
        lane.push(Job(-place), None, place)
    assert lane.pop() == "notice"


def test_a_notice_overtakes_no_message_that_stood_before_it() -> None:
    # A child sends m and dies, then somebody sends an urgent message: m is still handled before the notice.
    lane = lane_of(Job(5, "m"))
    lane.push_notice("death", NOTICE, 1)
    lane.push(Job(0, "urgent"), None, 2)
    taken = drain(lane)
    assert taken.index(Job(5, "m")) < taken.index("death")


def test_a_notice_waits_no_longer_for_a_message_that_was_dropped() -> None:
    lane = lane_of(Job(1))
    lane.push_notice("notice", NOTICE, 1)
    lane.push(Job(0), None, 2)
    lane.pop_oldest()
    assert drain(lane) == ["notice", Job(0)]


class Notice(NamedTuple):
    """A notice, its place, and the messages that stood before it."""

    older: list[Job]
    place: int


class PriorityLaneAgainstList(RuleBasedStateMachine):
    """A priority lane and an unordered list that is searched."""

    def __init__(self) -> None:
        super().__init__()
        self.lane = PriorityLane(key_of)
        self.model: list[tuple[int, int, Job]] = []  # key, place, message
        self.notices: list[Notice] = []
        self.place = 0

    @rule(key=st.integers(0, 4))
    def push(self, key: int) -> None:
        job = Job(key, object())
        self.lane.push(job, ("sender", self.place), self.place)
        self.model.append((key, self.place, job))
        self.place += 1

    @rule()
    def push_notice(self) -> None:
        notice = Notice([job for _, _, job in self.model], self.place)
        self.lane.push_notice(notice, NOTICE, self.place)
        self.notices.append(notice)
        self.place += 1

    @precondition(lambda self: self.model or self.notices)
    @rule()
    def pop(self) -> None:
        sender = self.lane.first_sender()
        waiting = [job for _, _, job in self.model]
        due = bool(self.notices) and not any(job in waiting for job in self.notices[0].older)
        assert (sender is NOTICE) == due, "a notice waits for those before it, and for nobody else"
        if due:
            notice = self.notices.pop(0)
            assert self.lane.first_place() == notice.place
            assert self.lane.pop() is notice
            return
        first = min(self.model, key=lambda entry: entry[:2])
        assert sender == ("sender", first[1])
        assert self.lane.first_place() == first[1]
        assert self.lane.pop() is first[2]
        self._forget(first)

    @precondition(lambda self: self.model)
    @rule()
    def pop_oldest(self) -> None:
        first = min(self.model, key=lambda entry: entry[1])
        message, sender = self.lane.pop_oldest()
        assert message is first[2]
        assert sender == ("sender", first[1])
        self._forget(first)

    def _forget(self, entry: tuple[int, int, Job]) -> None:
        self.model.remove(entry)

    @precondition(lambda self: self.model)
    @rule(key=st.sampled_from(["x", None]))
    def push_what_cannot_be_compared(self, key: object) -> None:
        with pytest.raises(TypeError):
            self.lane.push(Job(key), None, self.place)

    @invariant()
    def they_hold_as_many(self) -> None:
        assert len(self.lane) == len(self.model)
        assert self.lane.waiting == bool(self.model or self.notices)


TestPriorityLaneAgainstList = PriorityLaneAgainstList.TestCase
TestPriorityLaneAgainstList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
