"""Ping-pong with ``async def`` handlers that never suspend, on a loop living inside asyncio."""

from __future__ import annotations

import asyncio
import time

from benchmarks.program import Report, expect, main, settle
from greenroom._core.cell import Cell
from greenroom._core.loop import Loop
from greenroom._core.poller import Poller


class Player:
    """Sends back what it gets, as often as it was told."""

    peer: Cell

    def __init__(self, returns: int) -> None:
        self.left = returns

    async def receive(self, message: object) -> None:
        if self.left:
            self.left -= 1
            self.peer.tell(message)


def run(n: int) -> Report:
    """About ``n`` messages between two cells with async handlers."""
    return asyncio.run(_play(n))


async def _play(n: int) -> Report:
    loop = Loop()
    poller = Poller(loop)
    poller.attach(asyncio.get_running_loop())
    a, b = Player(n // 2), Player(n // 2)
    first, second = loop.spawn(Player.receive, a), loop.spawn(Player.receive, b)
    a.peer, b.peer = second, first
    settle()
    start = time.perf_counter()
    first.tell(1)
    await poller.idle()
    seconds = time.perf_counter() - start
    poller.detach()
    expect("returns left", a.left + b.left, 0)
    return Report((2 * (n // 2) + 1) / seconds)


if __name__ == "__main__":
    main(run)
