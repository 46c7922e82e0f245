"""The actor that counts: in a module of its own, where a worker process can find it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from greenroom import Actor

__all__ = ["Found", "Primes", "Span"]


@dataclass(frozen=True)
class Span:
    """Numbers from `start` up to `stop`."""

    start: int
    stop: int


@dataclass(frozen=True)
class Found:
    """How many primes a span has, and which process counted them."""

    span: Span
    count: int
    process: int


class Primes(Actor[Span, Found]):
    """Counts primes, as slowly as it can be done: it needs a processor, and nothing else."""

    def receive(self, message: Span) -> Found:
        count = sum(1 for number in range(message.start, message.stop) if _is_prime(number))
        return Found(message, count, os.getpid())


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))
