"""Asks that wait for one another in a circle across loops, however the ticks of those interleave (B1, B5, case 25)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, SystemConfig
from greenroom.errors import AskDeadlock
from greenroom.testing import explore

Ref = ActorRef[Any, Any]

THREE = SystemConfig(loops=3)
# Of "fifo" there is only one.
RUNS = {"random": 30, "pct": 30, "fifo": 1}
SCHEDULES = list(RUNS)


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Have nothing logged: most of what fails here is meant to."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Walker(Actor[Any, Any]):
    """Asks the first of a path to walk the rest of it. An error is an answer too."""

    async def receive(self, message: tuple[Ref, ...]) -> Any:
        if not message:
            return "the end"
        try:
            return await message[0].ask(message[1:], timeout=None)
        except AskDeadlock as exc:
            return [exc]


def run(program: Any, schedule: str) -> None:
    report = explore(program, runs=RUNS[schedule], schedule=schedule, config=THREE, workers=0, output=None)
    if report.failure is not None:
        raise report.failure.error


def refused(ends: list[Any]) -> list[AskDeadlock]:
    """Whoever was refused, if the others have heard the end."""
    assert all(end == "the end" or isinstance(end, list) for end in ends), ends
    return [end[0] for end in ends if isinstance(end, list)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("points_to", [(1, 0), (1, 2, 0), (1, 2, 3, 4, 0), (3, 4, 5, 0, 1, 2), (1, 2, 0, 0, 3)])
def test_of_each_circle_one_ask_is_refused(points_to: tuple[int, ...], schedule: str) -> None:
    """Each actor asks one other at the same time; those that only lead to a circle hear the end of it."""

    async def program(system: ActorSystem) -> None:
        refs: list[Ref] = [system.spawn(Walker, dispatcher="spread") for _ in points_to]
        number_of: dict[object, int] = {ref: number for number, ref in enumerate(refs)}
        asks = [ref.ask((refs[there],), timeout=None) for ref, there in zip(refs, points_to, strict=True)]
        errors = refused([await one for one in asks])
        circles = 3 if points_to[:2] == (3, 4) else 1
        assert len(errors) == circles, errors
        told = {frozenset(error.cycle) for error in errors}
        assert len(told) == circles
        for error in errors:
            numbers = [number_of[ref] for ref in error.cycle]
            assert [points_to[here] for here in numbers[:-1]] == numbers[1:]
        await system.settle()
        assert system.ledger().late_replies == circles

    run(program, schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("length", [2, 3, 5])
def test_if_each_asks_the_next_in_turn_the_last_is_refused(length: int, schedule: str) -> None:
    async def program(system: ActorSystem) -> None:
        circle: list[Ref] = [system.spawn(Walker, dispatcher="spread") for _ in range(length)]
        [error] = await circle[0].ask((*circle[1:], circle[0]), timeout=None)
        assert error.cycle == (circle[-1], *circle)

    run(program, schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_who_is_refused_and_asks_again_is_refused_again(schedule: str) -> None:
    class Stubborn(Actor[Any, Any]):
        """Asks three times, if it must."""

        async def receive(self, message: Ref | None) -> Any:
            heard: list[Any] = []
            while message is not None and len(heard) < 3 and "here" not in heard:
                try:
                    heard.append(await message.ask(None, timeout=None))
                except AskDeadlock as exc:
                    heard.append(exc)
            return heard or "here"

    async def program(system: ActorSystem) -> None:
        one, two = (system.spawn(Stubborn, dispatcher="spread") for _ in range(2))
        asks = [one.ask(two, timeout=None), two.ask(one, timeout=None)]
        ends = sorted([await ask for ask in asks], key=len)
        assert ends[0] == ["here"]
        assert [type(error) for error in ends[1]] == [AskDeadlock] * 3

    run(program, schedule)
