"""Plays ping-pong on the bare loop: the least that an installed wheel must be able to do.

Run it with an interpreter that has nothing but greenroom: `python -I tools/smoke.py`.
"""

import os
import sys
from typing import Any

import greenroom
from greenroom._core.scheduler.loop import Loop

ROUNDS = 10_000


class Player:
    """Sends each ball back, one lower, until it is zero."""

    def __init__(self) -> None:
        self.opponent: Any = None
        self.seen = 0

    def receive(self, ball: int) -> None:
        self.seen += 1
        if ball:
            self.opponent.tell(ball - 1)


def play(rounds: int) -> int:
    """Return how many balls the players saw."""
    loop = Loop()
    ping, pong = Player(), Player()
    ping.opponent, pong.opponent = loop.spawn(Player.receive, pong), loop.spawn(Player.receive, ping)
    ping.opponent.tell(rounds - 1)
    loop.run_until_idle()
    return ping.seen + pong.seen


def main() -> None:
    build = "compiled" if greenroom.COMPILED else "pure"
    expected = os.environ.get("GREENROOM_EXPECT", build)
    if build != expected:
        sys.exit(f"smoke: this is the {build} build, expected the {expected} one")
    seen = play(ROUNDS)
    if seen != ROUNDS:
        sys.exit(f"smoke: {seen} balls seen, expected {ROUNDS}")
    print(f"smoke: COMPILED={greenroom.COMPILED}, {seen} balls seen")


if __name__ == "__main__":
    main()
