"""How many messages may be under way to another process."""

from __future__ import annotations

import pytest

from greenroom.system.dispatchers.processes.pool import executor
from greenroom.system.dispatchers.processes.pool.executor import Window


class Clock:
    """Stands still unless it is turned."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(executor, "monotonic", made)
    return made


def play(clock: Clock, made: Window, rounds: int, seconds: float, size: int = 10) -> None:
    """Fill the window and let it be emptied, again and again."""
    number = 0
    for _ in range(rounds):
        while room := made.room(0 if made._mark < 0 else made.size):
            number += room
            made.sent(number, room, room * size)
        clock.now += seconds
        made.done(number)


def test_it_opens_while_it_is_emptied_quickly_and_only_so_far(clock: Clock) -> None:
    made = Window()
    sizes = []
    for _ in range(20):
        play(clock, made, 1, 0.001)
        sizes.append(made.size)
    assert sizes[:4] == [2, 4, 8, 16]
    assert sizes[-1] == 16_384


def test_it_closes_when_it_is_not(clock: Clock) -> None:
    made = Window()
    play(clock, made, 10, 0.001)
    assert made.size == 1024
    play(clock, made, 3, 0.5)
    assert made.size == 128
    play(clock, made, 20, 0.5)
    assert (made.size, made.room(0), made.room(1)) == (1, 1, 0)


def test_it_stays_when_that_is_about_right(clock: Clock) -> None:
    made = Window()
    play(clock, made, 5, 0.001)
    play(clock, made, 5, 0.05)
    assert made.size == 32


def test_large_messages_take_more_of_it(clock: Clock) -> None:
    made = Window()
    play(clock, made, 20, 0.001)
    made.sent(1, 1, 1 << 21)
    assert made.room(0) == 2
    assert made.room(14) == 0


def test_there_is_no_room_for_just_a_few(clock: Clock) -> None:
    made = Window()
    play(clock, made, 8, 0.001)
    assert (made.size, made.room(200), made.room(192)) == (256, 0, 64)


def test_something_wrong_closes_it(clock: Clock) -> None:
    made = Window()
    play(clock, made, 8, 0.001)
    made.shrink()
    assert made.room(0) == 1
