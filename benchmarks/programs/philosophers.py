"""Twenty philosophers at a round table, and an arbiter that gives them their forks, both at once.

A hungry one whose forks are in use waits with the arbiter until a neighbour has eaten. Three messages for each meal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, expect
from benchmarks.programs.measuring import Outcome, Stopwatch, choose
from greenroom import Actor, ActorRef, ActorSystem

PHILOSOPHERS = 20

START = "start"
EAT = "eat"
HUNGRY = "hungry"
SATED = "sated"

# What a philosopher is, and the place where it sits.
Mood = tuple[str, int]


class Arbiter(Actor[Mood, None]):
    """Knows which forks are in use and who waits for them. The fork of a place lies to its left."""

    def __init__(self, table: Sequence[ActorRef[str, None]], meals: int, outcome: Outcome) -> None:
        self.table = table
        self.in_use = [False] * PHILOSOPHERS
        self.waiting = [False] * PHILOSOPHERS
        self.meals = 0
        self.wanted = meals
        self.outcome = outcome

    def receive(self, message: Mood) -> None:
        mood, place = message
        if mood is HUNGRY:
            self._serve(place)
        else:
            self._clear(place)

    def _serve(self, place: int) -> None:
        in_use, right = self.in_use, (place + 1) % PHILOSOPHERS
        if in_use[place] or in_use[right]:
            self.waiting[place] = True
        else:
            in_use[place] = in_use[right] = True
            self.table[place].tell(EAT)

    def _clear(self, place: int) -> None:
        right = (place + 1) % PHILOSOPHERS
        self.in_use[place] = self.in_use[right] = False
        self.meals += 1
        if self.meals == self.wanted:
            self.outcome.value = self.meals
        for neighbour in (place - 1) % PHILOSOPHERS, right:
            if self.waiting[neighbour]:
                self.waiting[neighbour] = False
                self._serve(neighbour)


class Philosopher(Actor[str, None]):
    """Eats as soon as it may, says when it has, and is hungry again."""

    def __init__(self, arbiter: ActorRef[Mood, None], place: int, meals: int) -> None:
        self.arbiter = arbiter
        self.hungry = (HUNGRY, place)
        self.sated = (SATED, place)
        self.left = meals

    def receive(self, message: str) -> None:
        if message is EAT:
            self.arbiter.tell(self.sated)
        if self.left:
            self.left -= 1
            self.arbiter.tell(self.hungry)


def run(n: int) -> Report:
    """About ``n`` messages: three for each meal."""
    return perform(partial(_dine, n // (3 * PHILOSOPHERS)))


async def _dine(meals: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    table: list[ActorRef[str, None]] = []
    arbiter = system.spawn(Arbiter, table, PHILOSOPHERS * meals, outcome)
    table.extend(system.spawn(Philosopher, arbiter, place, meals) for place in range(PHILOSOPHERS))
    await system.settle()
    with Stopwatch() as watch:
        for philosopher in table:
            philosopher.tell(START)
        await system.settle()
    expect("meals", outcome.value, PHILOSOPHERS * meals)
    messages = PHILOSOPHERS * (3 * meals + 1)
    await expect_all_handled(system, messages)
    return watch.report(messages)


if __name__ == "__main__":
    choose({"philosophers": run})
