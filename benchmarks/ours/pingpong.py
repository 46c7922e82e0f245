"""Two cells, each counting down and sending back: the cost of one message, handler included."""

from __future__ import annotations

import time

from benchmarks.program import Report, expect, main, settle
from greenroom._core.cell import Cell
from greenroom._core.loop import Loop


class Player:
    """Sends back what it gets, as often as it was told."""

    peer: Cell

    def __init__(self, returns: int) -> None:
        self.left = returns

    def receive(self, message: object) -> None:
        if self.left:
            self.left -= 1
            self.peer.tell(message)


def run(n: int) -> Report:
    """About ``n`` messages between two cells, on the bare loop."""
    loop = Loop()
    a, b = Player(n // 2), Player(n // 2)
    first, second = loop.spawn(Player.receive, a), loop.spawn(Player.receive, b)
    a.peer, b.peer = second, first
    settle()
    start = time.perf_counter()
    first.tell(1)
    loop.run_until_idle()
    seconds = time.perf_counter() - start
    expect("returns left", a.left + b.left, 0)
    return Report((2 * (n // 2) + 1) / seconds)


if __name__ == "__main__":
    main(run)
