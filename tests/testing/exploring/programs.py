"""What the tests of exploring share: small programs that fail in some orders, and a terminal."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TextIO

from greenroom import Actor, ActorSystem
from greenroom.testing import Failure, explore

DEADLINE = 120.0
"""Seconds that shrinking may take: nothing is asserted of how far it comes in less."""


class Note(Actor[str, None]):
    """Writes down what it gets."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def receive(self, message: str) -> None:
        self.log.append(message)


async def in_order(system: ActorSystem) -> list[str]:
    """Three actors with a message each; in the order they come by themselves, a is first."""
    log: list[str] = []
    for name in "abc":
        system.spawn(Note, log, name=name).tell(name)
    await system.settle()
    return log


async def b_after_a(system: ActorSystem) -> None:
    log = await in_order(system)
    if log.index("a") > log.index("b"):
        raise AssertionError("b was first")  # in the same words every time, unlike an assert of pytest's


def find(program: Any, **settings: Any) -> Failure:
    """The failure of a program that is expected to fail."""
    report = explore(program, **{"output": None, "runs": 100, "workers": 1, "shrink_seconds": DEADLINE, **settings})
    assert report.failure is not None
    return report.failure


CLEARED = "\r\x1b[K"
"""How a terminal's line is begun afresh."""


def shown_on_a_terminal(act: Callable[[TextIO], object]) -> str:
    """All that `act` writes to a terminal."""
    master, slave = os.openpty()
    read: list[bytes] = []

    def read_all() -> None:
        try:
            while some := os.read(master, 4096):
                read.append(some)
        except OSError:
            pass  # so a terminal says that nobody writes any more

    reader = threading.Thread(target=read_all)
    reader.start()
    with os.fdopen(slave, "w") as output:
        act(output)
    reader.join()
    os.close(master)
    return b"".join(read).decode()
