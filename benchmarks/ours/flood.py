"""Outside code floods one cell behind a bounded mailbox: bursts that fit, each drained in full."""

from __future__ import annotations

import time

from benchmarks.program import Report, expect, main, settle
from greenroom._core.loop import Loop

BURST = 50_000


class Sink:
    """Does nothing with what reaches it; the loop's own counter tells that all of it came."""

    def receive(self, message: object) -> None:
        pass


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
    expect("messages handled", cell.handled, n)
    return Report(n / seconds)


if __name__ == "__main__":
    main(run)
