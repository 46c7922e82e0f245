"""Where chance comes from.

Nothing in Greenroom draws a number by itself: it asks the system's `Random`, which has a seed. Apart from the clock,
because most programs never draw one, and importing the standard library's `random` takes a while (`make bench`, P17).

>>> Random(7).random() == Random(7).random()
True
"""

from __future__ import annotations

import random
from typing import Any


class Random(random.Random):
    """A seeded generator that remembers its seed (`seed_used`), so that a failing run can be repeated."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed_used = 0
        super().__init__(seed)

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Begin again from `a`, or from a seed of its own making."""
        self.seed_used = random.SystemRandom().getrandbits(64) if a is None else a
        super().seed(self.seed_used, version)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.seed_used,), self.getstate()
