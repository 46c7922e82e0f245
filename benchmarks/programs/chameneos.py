"""A hundred creatures go to a mall to meet in pairs; both of a pair change their colour.

The one that came first is told of the second, changes, tells it the new colour; then both come again.
"""

from __future__ import annotations

from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, expect
from benchmarks.programs.measuring import Outcome, Stopwatch, choose
from greenroom import Actor, ActorRef, ActorSystem

CREATURES = 100
COLOURS = 3

START = "start"
CLOSED = "closed"

# A creature that has come, with its colour.
Visit = tuple[int, ActorRef]


class Mall(Actor[Visit | int, None]):
    """Makes pairs of the creatures that come. After the last meeting it sends them home, and adds up their counts."""

    def __init__(self, meetings: int, outcome: Outcome) -> None:
        self.left = meetings
        self.waiting: ActorRef | None = None
        self.inside = CREATURES
        self.met = 0
        self.outcome = outcome

    def receive(self, message: Visit | int) -> None:
        if isinstance(message, int):
            self._go_home(message)
        elif not self.left:
            message[1].tell(CLOSED)
        elif self.waiting is None:
            self.waiting = message[1]
        else:
            self.waiting.tell(message)
            self.waiting = None
            self.left -= 1

    def _go_home(self, meetings: int) -> None:
        self.met += meetings
        self.inside -= 1
        if not self.inside:
            self.outcome.value = self.met


class Creature(Actor[Visit | int | str, None]):
    """Told of a visitor, it has met it as the first of two; told a colour, as the second."""

    me: ActorRef[Visit | int | str, None]

    def __init__(self, mall: ActorRef[Visit | int, None], colour: int) -> None:
        self.mall = mall
        self.colour = colour
        self.met = 0

    def pre_start(self) -> None:
        self.me = self.ctx.self

    def receive(self, message: Visit | int | str) -> None:
        if isinstance(message, tuple):
            colour, other = message
            self.colour = mix(self.colour, colour)
            self.met += 1
            other.tell(self.colour)
        elif isinstance(message, int):
            self.colour = message
            self.met += 1
        elif message is CLOSED:
            self.mall.tell(self.met)
            return
        self.mall.tell((self.colour, self.me))


def mix(one: int, other: int) -> int:
    """The colour that two take on: their own if they have the same, else the third."""
    return one if one == other else COLOURS - one - other


def run(n: int) -> Report:
    """About ``n`` messages: four for each meeting."""
    return perform(partial(_meet, n // 4))


async def _meet(meetings: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    mall = system.spawn(Mall, meetings, outcome)
    creatures = [system.spawn(Creature, mall, place % COLOURS) for place in range(CREATURES)]
    await system.settle()
    with Stopwatch() as watch:
        for creature in creatures:
            creature.tell(START)
        await system.settle()
    expect("creatures in meetings", outcome.value, 2 * meetings)
    # Each creature is started, comes a last time, is sent home, and says how many it met.
    messages = 4 * meetings + 4 * CREATURES
    await expect_all_handled(system, messages)
    return watch.report(messages)


if __name__ == "__main__":
    choose({"chameneos": run})
