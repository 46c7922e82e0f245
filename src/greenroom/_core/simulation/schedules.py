"""Which actor runs next in a simulation, for how many messages, and when asyncio has its turn.

A schedule answers three questions at each *step*, which is one visit to one actor. Zero is always what the real loop
does: the first in the queue, a visit of full length, no pause before the budgets are spent. So a schedule can be
written down as what it does otherwise, and the shorter that is, the easier it is to understand (`Scripted`).

Where loops have virtual threads of their own, it is a step too to choose which of several goes on. Zero is then the one
that waited longest. And it is a step whether a tick takes in what others have brought, or leaves it for the next: on
real threads, it may come in the midst of a tick.
"""

from __future__ import annotations

from greenroom._core.mailbox.cell import Cell
from greenroom._core.runqueue import RunQueue

# SplitMix64: one addition and one mixing of bits for each number, and any seed is as good as any other.
_STEP = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF
_FRACTION = 1.0 / (1 << 53)

WINDOW = 64
"""How many of the runnable actors are chosen from: what a step costs must not grow with their number."""
PATIENCE_STEPS = 250
"""Steps that the first in the queue is passed over at most, whatever its priority: or it might wait for ever."""
LONGEST = 14
"""Programs of up to 2**14 steps are where `Pct` expects its change points."""
SHORTEST = 3
_NOTHING = (0, 0, 0)


class SplitMix:
    """A stream of random numbers: the same from the same seed, on every machine and in both builds.

    `random.Random` is as repeatable, but a simulation draws for every visit to an actor, and there a C call in place of
    an interpreted one is most of the cost.

    >>> SplitMix(7).below(100) == SplitMix(7).below(100)
    True
    """

    def __init__(self, seed: int) -> None:
        state = seed & 0xFFFF_FFFF_FFFF_FFFF
        rest = seed >> 64
        # Every bit of a long seed counts, and its sign.
        while rest:
            state = ((state + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 ^ rest) & 0xFFFF_FFFF_FFFF_FFFF
            rest = 0 if rest == -1 else rest >> 64
        self._state = state

    def draw(self) -> int:
        self._state = (self._state + _STEP) & ALL_BITS
        bits = self._state
        bits = ((bits ^ (bits >> 30)) * _FIRST) & ALL_BITS
        bits = ((bits ^ (bits >> 27)) * _SECOND) & ALL_BITS
        return bits ^ (bits >> 31)

    def below(self, bound: int) -> int:
        """A whole number from 0 up to, but not including, `bound`."""
        return (self.draw() >> 1) % bound

    def fraction(self) -> float:
        """A number from 0 up to, but not including, 1."""
        return (self.draw() >> 11) * _FRACTION

    def fork(self) -> SplitMix:
        """Another stream, which goes its own way however many numbers are drawn from either."""
        return SplitMix(self.draw())


class Schedule:
    """First come, first served: what the real loop does. Subclasses deviate from it."""

    def choose(self, step: int, runq: RunQueue) -> int:
        """The position in the queue of the actor to visit; there is at least one."""
        return 0

    def choose_thread(self, step: int, threads: list[int]) -> int:
        """The position of the virtual thread that goes on: these are ready, the one that waited longest first."""
        return 0

    def leaves_brought(self, step: int) -> bool:
        """Whether a tick leaves what other virtual threads have brought for the next one."""
        return False

    def budget(self, step: int) -> int:
        """How many messages this visit may handle; 0 for as many as usual."""
        return 0

    def pauses(self, step: int) -> bool:
        """Whether asyncio, which has something to do, has its turn after this visit."""
        return False


class Shuffled(Schedule):
    """Whichever runnable actor, for any number of messages; asyncio has its turn when it comes."""

    def __init__(self, seed: int) -> None:
        self._prng = SplitMix(seed)

    def choose(self, step: int, runq: RunQueue) -> int:
        return 0 if runq.count == 1 else self._prng.below(min(runq.count, WINDOW))

    def choose_thread(self, step: int, threads: list[int]) -> int:
        return self._prng.below(len(threads))

    def leaves_brought(self, step: int) -> bool:
        return bool(self._prng.draw() & 1)

    def budget(self, step: int) -> int:
        """One message half of the time, else up to eight or as many as usual: each finds other bugs."""
        bits = self._prng.draw()
        if bits & 1:
            return 1
        return int((bits >> 1) & 7) if bits & 16 else 0

    def pauses(self, step: int) -> bool:
        return bool(self._prng.draw() & 1)


class Line:
    """Which actor or virtual thread is first in the queue, and for how many steps already."""

    def __init__(self) -> None:
        self._head = 0
        self._passed = 0

    def has_waited(self, head: int) -> bool:
        """Whether `head`, which stands first now, has been passed over often enough."""
        self._passed = self._passed + 1 if head == self._head else 0
        self._head = head
        if self._passed < PATIENCE_STEPS:
            return False
        self._passed = 0
        return True


class Pct(Schedule):
    """Probabilistic concurrency testing: strict priorities, drawn at random, that change at `depth - 1` moments.

    A bug that needs `depth` things to happen in one order shows with a probability of at least 1 / (n * k ** (depth -
    1)), with n actors and k steps: plain random choice has to be right at every single step. (Burckhardt, Kothari,
    Musuvathi, Nagarakatti: A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, 2010.) How long the
    program runs is not known beforehand, so each seed has its own idea of that too.
    """

    def __init__(self, seed: int, depth: int) -> None:
        self._prng = SplitMix(seed)
        steps = 1 << (SHORTEST + self._prng.below(LONGEST - SHORTEST + 1))
        self._changes: set[int] = {1 + self._prng.below(steps) for _ in range(depth - 1)}
        # What is not an actor has a priority as well.
        self._outside = self._prng.fraction()
        # By the numbers of actors and virtual threads: a schedule keeps no actor alive.
        self._priorities: dict[int, float] = {}
        # Below every priority that was drawn, and lower with each change.
        self._lowest = 0.0
        self._last = -1
        self._actors = Line()
        self._threads = Line()

    def choose(self, step: int, runq: RunQueue) -> int:
        numbers = [_number_of(runq.at(position)) for position in range(min(runq.count, WINDOW))]
        position = self._choose(step, numbers, self._actors)
        self._last = numbers[position]
        return position

    def choose_thread(self, step: int, threads: list[int]) -> int:
        # Negative: not the numbers of actors.
        return self._choose(step, [-2 - thread for thread in threads], self._threads)

    def leaves_brought(self, step: int) -> bool:
        return bool(self._prng.draw() & 1)

    def _choose(self, step: int, numbers: list[int], line: Line) -> int:
        """The position of the highest priority."""
        position = self._highest(numbers)
        if step in self._changes:
            self._lowest -= 1.0
            self._priorities[numbers[position]] = self._lowest
            position = self._highest(numbers)
        return 0 if line.has_waited(numbers[0]) else position

    def _highest(self, numbers: list[int]) -> int:
        best = 0
        highest = self._priority_of(numbers[0])
        for position in range(1, len(numbers)):
            priority = self._priority_of(numbers[position])
            if priority > highest:
                best = position
                highest = priority
        return best

    def _priority_of(self, number: int) -> float:
        priority = self._priorities.get(number)
        if priority is None:
            priority = self._priorities[number] = self._prng.fraction()
        return priority

    def budget(self, step: int) -> int:
        """One message: the next may be another actor's."""
        return 1

    def pauses(self, step: int) -> bool:
        """When asyncio's own priority is higher than that of the actor that ran; its own may change too."""
        if self._outside <= self._priority_of(self._last):
            return False
        if step in self._changes:
            self._lowest -= 1.0
            self._outside = self._lowest
        return True


def _number_of(cell: Cell) -> int:
    return cell.id


class Scripted(Schedule):
    """What was written down: for a step, the position, the budget and the pause. Steps that are not in it are zeros."""

    def __init__(self, script: dict[int, tuple[int, int, int]]) -> None:
        self._script = script

    def choose(self, step: int, runq: RunQueue) -> int:
        """The position as written; where fewer actors are runnable than that, the last of them."""
        return min(self._script.get(step, _NOTHING)[0], runq.count - 1)

    def choose_thread(self, step: int, threads: list[int]) -> int:
        """The position as written; where fewer threads are ready than that, the last of them."""
        return min(self._script.get(step, _NOTHING)[0], len(threads) - 1)

    def leaves_brought(self, step: int) -> bool:
        return bool(self._script.get(step, _NOTHING)[0] != 0)

    def budget(self, step: int) -> int:
        return self._script.get(step, _NOTHING)[1]

    def pauses(self, step: int) -> bool:
        return bool(self._script.get(step, _NOTHING)[2] != 0)
