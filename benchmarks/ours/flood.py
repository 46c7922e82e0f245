"""Outside code floods one cell behind a bounded mailbox: bursts that fit, each drained in full."""

from __future__ import annotations

import time

from benchmarks.program import Report, expect, main, settle
from greenroom._core.loop import Loop

BURST = 50_000


class Sink:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.handled = 0

    def receive(self, message: object) -> None:
        self.handled += 1


def run(n: int) -> Report:
    """``n`` messages; sends and drain are both inside the clock."""
    loop = Loop()
    sink = Sink()
    cell = loop.spawn(Sink.receive, sink)
    tell = cell.tell
    settle()
    start = time.perf_counter()
    for first in range(0, n, BURST):
        for number in range(first, min(first + BURST, n)):
            tell(number)
        loop.run_until_idle()
    seconds = time.perf_counter() - start
    expect("messages handled", sink.handled, n)
    return Report(n / seconds)


if __name__ == "__main__":
    main(run)
