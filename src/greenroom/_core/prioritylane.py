"""A data lane served by a user's key instead of by arrival.

The smallest key comes first, equal keys in order of arrival. A notice has no key: its turn comes after as many
messages as stood before it when it arrived, so it neither overtakes them nor starves behind later, more urgent ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

__all__ = ["PriorityLane"]


class PriorityLane:
    """A stable priority queue of messages, and the notices that wait among them."""

    __slots__ = ("_heap", "_key", "_notices", "_taken")

    def __init__(self, key: Callable[[Any], Any]) -> None:
        self._key = key
        self._heap: list[tuple[Any, int, object, object]] = []  # key, place, message, sender
        self._notices: deque[tuple[int, object, object]] = deque()  # turn, notice, mark
        self._taken = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def waiting(self) -> bool:
        """Whether a message or a notice waits."""
        return bool(self._heap) or bool(self._notices)

    def push(self, message: object, sender: object, place: int) -> None:
        """Add a message; what its key function or a comparison of keys raises reaches the sender, and adds nothing."""
        entry = (self._key(message), place, message, sender)
        try:
            heappush(self._heap, entry)
        except BaseException:
            # A comparison failed with the entry already inside; the others compare with one another.
            self._heap = [other for other in self._heap if other is not entry]
            heapify(self._heap)
            raise

    def push_notice(self, notice: object, mark: object) -> None:
        """Add a notice behind the messages that stand here now."""
        self._notices.append((self._taken + len(self._heap), notice, mark))

    def first_place(self) -> int:
        """The place in the order of arrival of what comes next."""
        return 0 if self._notice_is_due() else self._heap[0][1]

    def first_sender(self) -> object:
        """The sender of what comes next."""
        return self._notices[0][2] if self._notice_is_due() else self._heap[0][3]

    def pop(self) -> object:
        """Take what comes next."""
        if self._notice_is_due():
            return self._notices.popleft()[1]
        self._taken += 1
        return heappop(self._heap)[2]

    def pop_oldest(self) -> tuple[object, object]:
        """Take the message that has waited longest, whatever its key. Costs a search: overflow only."""
        oldest = min(self._heap, key=_place)
        self._heap.remove(oldest)
        heapify(self._heap)
        self._taken += 1
        return oldest[2], oldest[3]

    def _notice_is_due(self) -> bool:
        return bool(self._notices) and (not self._heap or self._notices[0][0] <= self._taken)


def _place(entry: tuple[Any, int, object, object]) -> int:
    return entry[1]
