"""A data lane ordered by a user's key: smallest first, equals by arrival, notices neither overtake nor starve (M15)."""

from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from greenroom._core.mailbox.prioritylane import PriorityLane
from greenroom._core.receipt import NOTICE


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


def test_equal_keys_are_served_in_order_of_arrival() -> None:  # M15
    # The names cannot be compared with one another: nothing but key and arrival may decide.
    jobs = [Job(number % 3, object()) for number in range(30)]
    assert drain(lane_of(*jobs)) == sorted(jobs, key=key_of)


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
