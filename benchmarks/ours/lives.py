"""What a life costs that is not plain, over one that is: with hooks that do not suspend, or with a child that is gone.

Both lives take turns in one process, and are measured in CPU time: from the spawn to the end.
"""

from __future__ import annotations

import statistics
import sys
import time
from functools import partial

from benchmarks.ours.stage import perform
from benchmarks.program import Report, expect, main, settle
from greenroom import Actor, ActorRef, ActorSystem

AT_ONCE = 1000


class Plain(Actor[str, None]):
    """Does nothing."""

    def receive(self, message: str) -> None:
        pass


class Hooked(Plain):
    """Has all four hooks, which do nothing either."""

    def pre_start(self) -> None:
        pass

    def post_start(self) -> None:
        pass

    def pre_stop(self) -> None:
        pass

    def post_stop(self) -> None:
        pass


class Child(Actor[str, None]):
    """Ends with its first message."""

    def receive(self, message: str) -> None:
        self.ctx.stop()


class Parent(Actor[str, None]):
    """Has a child, for a while."""

    def receive(self, message: str) -> None:
        self.ctx.spawn(Child).tell("end")


KINDS: dict[str, type[Actor[str, None]]] = {"hooks": Hooked, "children": Parent}


def run(kind: str, n: int) -> Report:
    """``n`` lives of either kind; the CPU time of one, over that of a plain one."""
    return perform(partial(_compare, KINDS[kind], n))


async def _compare(kind: type[Actor[str, None]], n: int, system: ActorSystem) -> Report:
    settle()
    rounds = max(n // AT_ONCE, 5)
    pairs = [(await _live(kind, system), await _live(Plain, system)) for _ in range(rounds)]
    lives = rounds * AT_ONCE * (3 if kind is Parent else 2)
    expect("lives ended", system.snapshot().terminated, lives)
    dear, plain = (statistics.median(side) / AT_ONCE for side in zip(*pairs, strict=True))
    return Report(dear / plain, {"microseconds a life": dear * 1e6, "microseconds a plain life": plain * 1e6})


async def _live(kind: type[Actor[str, None]], system: ActorSystem) -> float:
    """CPU seconds for a thousand lives; what happens in the middle of them is not measured."""
    seconds = -time.process_time()
    refs: list[ActorRef[str, None]] = [system.spawn(kind) for _ in range(AT_ONCE)]
    await system.settle()
    seconds += time.process_time()
    for ref in refs:
        ref.tell("live")
    await system.settle()
    seconds -= time.process_time()
    for ref in refs:
        ref.stop()
    await system.settle()
    return seconds + time.process_time()


if __name__ == "__main__":
    main(partial(run, sys.argv.pop(1)))
