"""A thousand cells in a ring and a hundred tokens going round; each hop takes one off its token."""

from __future__ import annotations

import time

from benchmarks.program import Report, expect, main, settle
from greenroom._core.cell import Cell
from greenroom._core.loop import Loop

CELLS = 1000
TOKENS = 100


class Node:
    """Passes a token on until it is used up."""

    following: Cell

    def __init__(self, used_up: list[int]) -> None:
        self.used_up = used_up

    def receive(self, token: int) -> None:
        if token:
            self.following.tell(token - 1)
        else:
            self.used_up.append(token)


def run(n: int) -> Report:
    """About ``n`` hops in all."""
    loop = Loop()
    used_up: list[int] = []
    nodes = [Node(used_up) for _ in range(CELLS)]
    cells = [loop.spawn(Node.receive, node) for node in nodes]
    for place, node in enumerate(nodes):
        node.following = cells[(place + 1) % CELLS]
    hops = n // TOKENS
    settle()
    start = time.perf_counter()
    for token in range(TOKENS):
        cells[token * CELLS // TOKENS].tell(hops)
    loop.run_until_idle()
    seconds = time.perf_counter() - start
    expect("tokens used up", len(used_up), TOKENS)
    return Report(TOKENS * (hops + 1) / seconds)


if __name__ == "__main__":
    main(run)
