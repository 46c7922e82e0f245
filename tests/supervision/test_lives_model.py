"""Whatever is done to whatever actors, in whatever order: what happens is what the semantics say (R5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from greenroom import SystemConfig
from greenroom.testing.machine import ActorMachine
from tests.conformance.lives import assert_legal
from tests.supervision.lifemodel import (
    STOP_TIMEOUT,
    WITHIN,
    Act,
    Op,
    Plan,
    World,
    acts,
    bonds,
    names,
    orders,
    plans,
    who,
)

TO_REST = -1
FOR_LONG = -2
LONG_ENOUGH = 10 * STOP_TIMEOUT

pauses = st.sampled_from([0, 0, 0, 1, 1, 3, 3, TO_REST, TO_REST, FOR_LONG])
letters = st.lists(acts, min_size=1, max_size=3)


class Lives(ActorMachine):
    """Actors that are spawned, told, bound, stopped, killed, restarted and failed, from outside and by one another."""

    config = SystemConfig(history=True, stop_timeout=STOP_TIMEOUT)

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.system, lambda: self.now)

    @initialize(plans=st.lists(plans, min_size=3, max_size=5))
    def begin(self, plans: list[Plan]) -> None:
        for plan in plans:
            self.world.spawn(None, plan, None)

    @rule(parent=st.none() | who, plan=plans, name=names, then=pauses)
    def spawn(self, parent: int | None, plan: Plan, name: str | None, then: int) -> None:
        self.world.spawn(None if parent is None else self.world.life(parent), plan, name)
        self.go_on(then)

    @rule(to=who, letters=letters, then=pauses)
    def tell(self, to: int, letters: list[Act], then: int) -> None:
        for letter in letters:
            self.world.perform(None, ("tell", to, letter))
        self.go_on(then)

    @rule(me=who, ops=st.lists(bonds, min_size=1, max_size=4), then=pauses)
    def bind(self, me: int, ops: list[Op], then: int) -> None:
        self.world.perform(None, ("tell", me, Act(tuple(ops))))
        self.go_on(then)

    @rule(orders=st.lists(orders, min_size=1, max_size=3), then=pauses)
    def order(self, orders: list[Op], then: int) -> None:
        for order in orders:
            self.world.perform(None, order)
        self.go_on(then)

    def go_on(self, turns: int) -> None:
        """Let actors run for a little while."""

        async def take_turns() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        if turns == TO_REST:
            self.rest()
        elif turns == FOR_LONG:
            self.wait(LONG_ENOUGH)
        elif turns:
            self.run(take_turns)
            self.compare()

    @rule(seconds=st.sampled_from([0.4, WITHIN, STOP_TIMEOUT, 3.1, LONG_ENOUGH]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.advance(seconds)
        self.compare()
        if seconds == LONG_ENOUGH:
            overdue = self.world.model.overdue()
            assert not overdue, f"deadlines have passed, and still there: {overdue}"

    def rest(self) -> None:
        """Let everything come to its end that was begun."""
        self.world.peace = True
        self.world.open_gate()
        self.settle()
        self.world.peace = False
        self.world.model.rests(self.system.ledger())
        self.compare()

    def compare(self) -> None:
        model = self.world.model
        assert not model.complaints, "\n".join(model.complaints)
        alive = {life.ref for life in model.lives if life.alive}
        assert set(self.system.actors()) == alive
        assert {life.ref for life in model.lives if life.ref.is_alive} == alive

    def teardown(self) -> None:
        failing, model = self.failing, self.world.model
        model.closing_since = self.now
        super().teardown()
        if failing:
            return
        assert not model.complaints, "\n".join(model.complaints)
        for life in model.lives:
            assert not life.alive, f"{life} outlives the system"
            assert_legal(life.ref.history, killed=True)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Failures are what this is about: thousands of records of them are of no use to anybody."""
    logger = logging.getLogger("greenroom")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


def play(machine: type[Lives], **options: Any) -> None:
    """Run it with settings of its own, whatever those around it are."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    common = settings(database=None, deadline=None, stateful_step_count=30, suppress_health_check=slow)
    run_state_machine_as_test(machine, settings=settings(common, **options))


def test_no_life_diverges_from_the_model() -> None:  # R5
    play(Lives, max_examples=40, derandomize=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_no_life_diverges_from_the_model_in_ten_thousand_runs(number: int) -> None:  # R5
    """In parts, so that they can run side by side and each has a timeout of its own."""

    @seed(number)
    class Part(Lives):
        pass

    play(Part, max_examples=250)
