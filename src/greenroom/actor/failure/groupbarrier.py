"""The barrier of a group restart that spans several loops: all siblings stop before any is started again."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop

__all__ = ["GroupBarrier"]


class WaitingGroup(Protocol):
    """The siblings on one loop, when they wait at the barrier."""

    def go_on(self) -> None:
        """All siblings have stopped."""
        ...


class GroupBarrier:
    """Opens when every loop has arrived, and then tells their groups to go on. Thread-safe."""

    __slots__ = ("_awaited", "_lock", "_waiting", "is_open")

    def __init__(self, loops: int) -> None:
        self._lock = Lock()
        self._awaited = loops
        self._waiting: list[tuple[Loop, WaitingGroup]] = []
        self.is_open = False

    def arrive(self, loop: Loop, group: WaitingGroup | None = None) -> None:
        """The siblings on one loop have stopped, or there are none; `group` is told when all others have, too."""
        with self._lock:
            if group is not None:
                self._waiting.append((loop, group))
            self._awaited -= 1
            if self._awaited > 0:
                return
            self.is_open = True
            waiting, self._waiting = self._waiting, []
        for home, waiting_group in waiting:
            home.inbound.call(None, waiting_group.go_on)
