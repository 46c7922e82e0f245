"""Observers: told of what they ask for and of nothing else, at no cost when nobody asks, and off when they raise."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from greenroom._core.limits import Limits
from greenroom._core.observerhooks import EVENTS, ObserverHooks
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock

EVERY_EVENT = pytest.mark.parametrize("event", EVENTS)


class Everything:
    """Notes every event in the order it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def actor_started(self, ref: object) -> None:
        self.told.append(("actor_started", ref))

    def actor_stopped(self, ref: object, reason: object) -> None:
        self.told.append(("actor_stopped", ref, reason))

    def actor_restarted(self, ref: object, cause: object) -> None:
        self.told.append(("actor_restarted", ref, cause))

    def escalated(self, ref: object, cause: object) -> None:
        self.told.append(("escalated", ref, cause))

    def mailbox_full(self, ref: object, message: object, lane: object) -> None:
        self.told.append(("mailbox_full", ref, message, lane))

    def message_dropped(self, ref: object, message: object, lane: object) -> None:
        self.told.append(("message_dropped", ref, message, lane))

    def dead_letter(self, ref: object, message: object, sender: object, why: object) -> None:
        self.told.append(("dead_letter", ref, message, sender, why))

    def slow_handler(self, ref: object, message: object, seconds: object) -> None:
        self.told.append(("slow_handler", ref, message, seconds))

    def stuck_handler(self, ref: object, message: object, seconds: object, stack: object) -> None:
        self.told.append(("stuck_handler", ref, message, seconds, stack))

    def pod_changed(self, pod: object, status: object) -> None:
        self.told.append(("pod_changed", pod, status))


class One:
    """An observer of one event, which does as it is told."""

    def __init__(self, event: str, act: Callable[..., object]) -> None:
        setattr(self, event, act)


def is_wanted(hooks: ObserverHooks, event: str) -> bool:
    wanted: bool = getattr(hooks, event)
    return wanted


@EVERY_EVENT
def test_an_event_nobody_asked_for_is_not_wanted(event: str) -> None:  # J16
    hooks = ObserverHooks()
    assert not is_wanted(hooks, event)
    hooks.add(One("escalated", lambda *details: None))
    assert is_wanted(hooks, event) == (event == "escalated")


@EVERY_EVENT
def test_an_observer_is_told_with_the_details_of_the_event(event: str) -> None:
    hooks, observer = ObserverHooks(), Everything()
    hooks.add(observer)
    details = tuple(f"a {name}" for name in EVENTS[event])
    hooks.emit(event, *details)
    assert observer.told == [(event, *details)]


@EVERY_EVENT
def test_an_observer_that_left_is_told_nothing_and_the_event_costs_nothing_again(event: str) -> None:
    hooks, observer = ObserverHooks(), Everything()
    hooks.add(observer)
    hooks.remove(observer)
    hooks.remove(observer)
    assert not is_wanted(hooks, event)
    hooks.emit(event, *EVENTS[event])
    assert observer.told == []


def test_observers_are_told_in_the_order_they_came() -> None:
    hooks = ObserverHooks()
    told: list[str] = []
    for name in "abc":
        hooks.add(One("escalated", lambda ref, cause, name=name: told.append(name)))
    hooks.emit("escalated", "ref", "cause")
    assert told == ["a", "b", "c"]


def test_an_observer_added_twice_is_told_once() -> None:
    hooks, observer = ObserverHooks(), Everything()
    hooks.add(observer)
    hooks.add(observer)
    hooks.emit("actor_started", "ref")
    assert observer.told == [("actor_started", "ref")]


def test_observers_that_are_equal_are_still_two() -> None:
    class Equal(Everything):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    hooks, left, right = ObserverHooks(), Equal(), Equal()
    hooks.add(left)
    hooks.add(right)
    hooks.emit("actor_started", "ref")
    hooks.remove(right)
    hooks.emit("actor_started", "other")
    assert (len(left.told), len(right.told)) == (2, 1)


@EVERY_EVENT
def test_an_observer_that_raises_is_logged_and_taken_off_and_the_others_go_on(
    event: str, caplog: pytest.LogCaptureFixture
) -> None:
    def burst(*details: object) -> None:
        raise ValueError("observer's own fault")

    hooks, good = ObserverHooks(), Everything()
    hooks.add(One(event, burst))
    hooks.add(good)
    with caplog.at_level(logging.ERROR, "greenroom"):
        hooks.emit(event, *EVENTS[event])
        hooks.emit(event, *EVENTS[event])
    assert len(good.told) == 2
    assert len(caplog.records) == 1
    assert event in caplog.text
    assert "observer's own fault" in caplog.text


def test_a_lone_observer_that_raises_leaves_the_event_as_cheap_as_before(caplog: pytest.LogCaptureFixture) -> None:
    class Fragile(Everything):
        def escalated(self, ref: object, cause: object) -> None:
            raise ValueError

    hooks, fragile = ObserverHooks(), Fragile()
    hooks.add(fragile)
    hooks.emit("escalated", "ref", "cause")
    assert [event for event in EVENTS if is_wanted(hooks, event)] == []
    assert fragile.told == []
    assert len(caplog.records) == 1


def test_an_observer_may_leave_while_it_is_told() -> None:
    hooks = ObserverHooks()
    told: list[str] = []

    def leave(ref: object, cause: object) -> None:
        told.append("first")
        hooks.remove(first)

    first = One("escalated", leave)
    hooks.add(first)
    hooks.add(One("escalated", lambda ref, cause: told.append("second")))
    hooks.emit("escalated", "ref", "cause")
    hooks.emit("escalated", "ref", "cause")
    assert told == ["first", "second", "second"]


def test_an_observer_that_was_removed_is_told_nothing_more_not_even_of_this_event() -> None:
    hooks = ObserverHooks()
    told: list[str] = []
    second = One("escalated", lambda ref, cause: told.append("second"))
    hooks.add(One("escalated", lambda ref, cause: hooks.remove(second)))
    hooks.add(second)
    hooks.emit("escalated", "ref", "cause")
    assert told == []


def test_an_observer_may_add_another_while_it_is_told() -> None:
    hooks, late = ObserverHooks(), Everything()
    hooks.add(One("escalated", lambda ref, cause: hooks.add(late)))
    hooks.emit("escalated", "ref", "cause")
    hooks.emit("escalated", "ref", "again")
    assert late.told[-1] == ("escalated", "ref", "again")
    assert len(late.told) <= 2


def test_what_is_no_function_is_no_hook() -> None:
    class Counter(Everything):
        escalated = 0  # type: ignore[assignment]

    hooks, counter, other = ObserverHooks(), Counter(), Everything()
    hooks.add(counter)
    assert not is_wanted(hooks, "escalated")
    hooks.add(other)
    hooks.emit("escalated", "ref", "cause")
    hooks.emit("actor_started", "ref")
    assert other.told == [("escalated", "ref", "cause"), ("actor_started", "ref")]
    assert counter.told == [("actor_started", "ref")]


@pytest.mark.parametrize("observer", [object(), None, 5, One("dead_leter", print)])
def test_an_observer_without_any_hook_is_refused_with_their_names(observer: object) -> None:
    hooks = ObserverHooks()
    with pytest.raises(TypeError, match="dead_letter"):
        hooks.add(observer)
    assert [event for event in EVENTS if is_wanted(hooks, event)] == []


@EVERY_EVENT
def test_a_hook_that_cannot_take_the_details_is_refused_and_told_what_it_must_accept(event: str) -> None:
    hooks = ObserverHooks()
    with pytest.raises(TypeError, match=", ".join(EVENTS[event])):
        hooks.add(One(event, lambda: None))
    with pytest.raises(TypeError, match=event):
        hooks.add(One(event, lambda *, keyword: None))
    assert not is_wanted(hooks, event)


@EVERY_EVENT
def test_a_hook_may_name_its_parameters_as_it_likes(event: str) -> None:
    told: list[tuple[object, ...]] = []
    hooks = ObserverHooks()
    hooks.add(One(event, lambda *anything, extra=None: told.append(anything)))
    hooks.emit(event, *EVENTS[event])
    assert told == [EVENTS[event]]


@pytest.mark.parametrize(("took", "slow"), [(0.05, False), (0.1, True), (3.0, True)])
def test_a_loop_tells_of_a_handler_that_took_too_long(took: float, slow: bool) -> None:
    clock, hooks, observer = ManualClock(), ObserverHooks(slow_after=0.1), Everything()
    hooks.add(observer)
    loop = Loop(Limits(max_tick_time=60.0), clock, hooks=hooks)
    cell = loop.spawn(lambda subject, message: clock.step(clock.now() + message))
    cell.tell(took)
    loop.run_until_idle()
    assert observer.told == ([("slow_handler", cell, took, took)] if slow else [])
    assert cell.handled == 1
