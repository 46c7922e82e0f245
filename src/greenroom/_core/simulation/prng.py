"""Chance that can be repeated: the same numbers from the same seed, on every machine and in both builds.

`random.Random` is as repeatable, but a simulation draws for every visit to an actor, and there a C call in place of an
interpreted one is most of the cost.
"""

from __future__ import annotations

__all__ = ["SplitMix"]

# SplitMix64: one addition and one mixing of bits for each number, and any seed is as good as any other.
STEP = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB
ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF
_FRACTION = 1.0 / (1 << 53)


class SplitMix:
    """A stream of numbers that depends on nothing but its seed.

    >>> SplitMix(7).below(100) == SplitMix(7).below(100)
    True
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        bits = 0xFFFF_FFFF_FFFF_FFFF
        state = seed & bits
        rest = seed >> 64
        # Every bit of a long seed counts, and its sign.
        while rest:
            state = ((state + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 ^ rest) & bits
            rest = 0 if rest == -1 else rest >> 64
        self._state = state

    def draw(self) -> int:
        """The next 64 bits."""
        self._state = (self._state + STEP) & ALL_BITS
        bits = self._state
        bits = ((bits ^ (bits >> 30)) * FIRST) & ALL_BITS
        bits = ((bits ^ (bits >> 27)) * SECOND) & ALL_BITS
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
