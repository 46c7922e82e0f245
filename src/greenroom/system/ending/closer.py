"""A thread that waits for something to end, and ends it by force when that takes too long."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

__all__ = ["Closer"]


class Closer(Thread):
    """Runs `close`, which ends in a known time, so that a shutdown can wait for it; it cannot wait for a handler."""

    def __init__(self, name: str, close: Callable[[], object]) -> None:
        super().__init__(target=close, name=name, daemon=True)
