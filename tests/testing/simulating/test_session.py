"""A simulation that goes on bit by bit: what happens in each bit, and nothing between them (B1)."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from greenroom import Actor, ActorRef
from greenroom.errors import InvalidDelay
from greenroom.testing import Simulation

SEEDS = range(30)


class Relay(Actor[str, None]):
    """After a second, passes something on along a row of others; the last writes down when."""

    def __init__(self, log: list[float], left: int, wait: float = 1.0) -> None:
        self.log = log
        self.left = left
        self.wait = wait
        self.next: ActorRef[Any, Any] | None = None

    def pre_start(self) -> None:
        if self.wait:
            self.ctx.send_after(self.wait, self.ctx.self, "go")
        if self.left:
            self.next = self.ctx.spawn(Relay, self.log, self.left - 1, 0.0)

    async def receive(self, message: str) -> None:
        await asyncio.sleep(0)
        if self.next is None:
            self.log.append(self.ctx.now())
        else:
            self.next.tell(message)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_that_a_moment_brings_has_happened_when_it_is_reached(seed: int) -> None:
    log: list[float] = []
    with Simulation(seed).open() as session:
        session.system.spawn(Relay, log, 5)
        session.advance(1.0)
        assert log == [session.now] == [1.0]


@pytest.mark.parametrize("begin", [0.0, 1e7])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_parts_of_a_second_add_up_to_it(seed: int, begin: float) -> None:
    log: list[float] = []
    with Simulation(seed).open() as session:
        session.advance(begin)
        session.system.spawn(Relay, log, 1)
        for _ in range(9):
            session.advance(0.1)
        assert log == []
        session.advance(0.1)
        assert len(log) == 1
        assert session.now == pytest.approx(begin + 1.0, abs=1e-7)


def test_nothing_happens_between_two_calls() -> None:
    log: list[float] = []
    with Simulation(3).open() as session:
        session.system.spawn(Relay, log, 0, 0.0).tell("go")
        assert log == []
        session.settle()
        assert log == [0.0]
        session.advance(0.0)
        session.settle()
        assert session.now == 0.0


@pytest.mark.parametrize("seconds", [-1, math.inf, math.nan, "1", None, True])
def test_what_is_no_duration_is_refused_and_the_session_goes_on(seconds: Any) -> None:
    with Simulation(3).open() as session:
        with pytest.raises(InvalidDelay):
            session.advance(seconds)
        session.advance(2)
        assert session.now == 2.0
