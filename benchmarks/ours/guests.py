"""Actors that programs put into worker processes: a program's own classes could not be found there."""

from __future__ import annotations

from greenroom import Actor, Context

__all__ = ["Sink", "crunch"]


class Sink(Actor[int, int | None]):
    """Counts what it gets; asked with -1, it says how many that were."""

    def __init__(self) -> None:
        self.count = 0

    def receive(self, message: int) -> int | None:
        if message < 0:
            return self.count
        self.count += 1
        return None


def crunch(ctx: Context, rounds: int) -> int:
    """Keeps a processor busy."""
    total = 0
    for number in range(rounds):
        total = (total * 31 + number) % 1_000_003
    return total
