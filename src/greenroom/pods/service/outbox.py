"""What the holder of a handle has put down, because its thread must not wait: lane by lane, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from greenroom.lanes import Lane

__all__ = ["Outbox"]


class Outbox:
    """Filled and sent by its holder; whoever buries what waits for a pod that is gone empties it, from any thread."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        # All from the beginning: others look in here, too.
        self._lanes: dict[Lane, deque[object]] = {lane: deque() for lane in Lane}

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._lanes.values())

    def count(self, lane: Lane) -> int:
        """How many messages wait in one lane."""
        return len(self._lanes[lane])

    def put(self, message: object, lane: Lane) -> None:
        """Put a message down, behind others of its lane."""
        self._lanes[lane].append(message)

    def lanes(self) -> list[Lane]:
        """Those in which something waits."""
        return [lane for lane, waiting in self._lanes.items() if waiting]

    def take(self) -> object:
        """Take any message, to bury it; `IndexError` when there is none."""
        for waiting in self._lanes.values():
            if waiting:
                return waiting.popleft()
        raise IndexError("nothing waits")

    def send(self, lane: Lane, offer: Callable[[object], bool]) -> None:
        """Offer one message after the other, until one is not taken: it stays the first."""
        waiting = self._lanes[lane]
        while waiting:
            try:
                message = waiting.popleft()
            except IndexError:  # the pod is gone, and they are dead letters
                return
            if not offer(message):
                waiting.appendleft(message)
                return
