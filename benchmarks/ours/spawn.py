"""Spawn a cell, let it handle one message, end it: a thousand at a time."""

from __future__ import annotations

import time

from benchmarks.program import Report, expect, main, settle
from greenroom._core.loop import Loop

BATCH = 1000


class Tally:
    """What all the short-lived cells add to."""

    def __init__(self) -> None:
        self.handled = 0

    def receive(self, message: object) -> None:
        self.handled += 1


def run(n: int) -> Report:
    """``n`` cells in all, in whole batches."""
    loop = Loop()
    tally = Tally()
    batches = n // BATCH
    settle()
    start = time.perf_counter()
    for _ in range(batches):
        cells = [loop.spawn(Tally.receive, tally) for _ in range(BATCH)]
        for cell in cells:
            cell.tell(1)
        loop.run_until_idle()
        for cell in cells:
            loop.retire(cell)
        loop.run_until_idle()
    seconds = time.perf_counter() - start
    expect("messages handled", tally.handled, batches * BATCH)
    return Report(batches * BATCH / seconds)


if __name__ == "__main__":
    main(run)
