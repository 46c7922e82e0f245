"""What groups of siblings on several loops wait for: that all of them have left, before any is started again."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop

__all__ = ["GroupBarrier"]


class Waiting(Protocol):
    """A group that waits at the barrier."""

    def go_on(self) -> None:
        """All have left."""
        ...


class GroupBarrier:
    """Opens when each of so many loops has arrived, and then calls them. From any thread."""

    __slots__ = ("_awaited", "_lock", "_waiting", "is_open")

    def __init__(self, loops: int) -> None:
        self._lock = Lock()
        self._awaited = loops
        self._waiting: list[tuple[Loop, Waiting]] = []
        self.is_open = False

    def arrive(self, loop: Loop, group: Waiting | None = None) -> None:
        """The siblings on one loop have left, or there are none; `group` is told when the others have, too."""
        with self._lock:
            if group is not None:
                self._waiting.append((loop, group))
            self._awaited -= 1
            if self._awaited > 0:
                return
            self.is_open = True
            waiting, self._waiting = self._waiting, []
        for loop_of, one in waiting:
            loop_of.inbound.call(None, one.go_on)
