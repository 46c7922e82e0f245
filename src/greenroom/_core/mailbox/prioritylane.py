"""A data lane served by a user's key instead of by arrival.

The smallest key comes first, equal keys in order of arrival. A notice has no key: it waits for every message that stood
before it, as it would in any mailbox, and for none that came after it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Any

from greenroom.runtimelog import RuntimeLog

_log = RuntimeLog()
_place = itemgetter(1)


class Waiting:
    """A notice, its place, and how many messages stand between it and the notice before it."""

    __slots__ = ("mark", "messages_before", "notice", "place")

    def __init__(self, notice: object, mark: object, place: int, messages_before: int) -> None:
        self.notice = notice
        self.mark = mark
        self.place = place
        self.messages_before = messages_before


class PriorityLane:
    """A stable priority queue of messages, and the notices that wait among them."""

    __slots__ = ("_heap", "_key", "_newest", "_notices")

    def __init__(self, key: Callable[[Any], Any]) -> None:
        self._key = key
        self._heap: list[tuple[Any, int, object, object]] = []  # key, place, message, sender
        # Invariant: len(_heap) == sum of messages_before over _notices + _newest
        self._notices: list[Waiting] = []
        self._newest = 0

    def __len__(self) -> int:
        return len(self._heap)

    def senders(self) -> list[object]:
        """The senders of all messages here, in no certain order."""
        return [sender for _, _, _, sender in self._heap]

    @property
    def waiting(self) -> bool:
        return bool(self._heap) or bool(self._notices)

    def push(self, message: object, sender: object, place: int) -> None:
        """Add a message; what its key function or a comparison of keys raises reaches the sender, and adds nothing."""
        entry = (self._key(message), place, message, sender)
        try:
            heappush(self._heap, entry)
        except BaseException:
            # A comparison failed with the entry already inside.
            self._take_out(entry)
            raise
        self._newest += 1

    def put_back(self, message: object, sender: object, place: int) -> None:
        """Add a message that had its turn already: `place` is before all others, and so it is before every notice."""
        self.push(message, sender, place)
        if self._notices:
            self._newest -= 1
            self._notices[0].messages_before += 1

    def push_notice(self, notice: object, mark: object, place: int) -> None:
        """Add a notice behind the messages that stand here now."""
        self._notices.append(Waiting(notice, mark, place, self._newest))
        self._newest = 0

    def first_place(self) -> int:
        """The place in the order of arrival of what comes next."""
        return self._notices[0].place if self._notice_is_due() else self._heap[0][1]

    def first_sender(self) -> object:
        return self._notices[0].mark if self._notice_is_due() else self._heap[0][3]

    def pop(self) -> object:
        if self._notice_is_due():
            return self._notices.pop(0).notice
        first = self._heap[0]
        try:
            heappop(self._heap)
        except Exception as exc:
            # Nothing is lost: all but the first are still there. But keys that compare with some others only have no
            # order that could be kept.
            _log.error("priority keys that do not compare with one another: served in no certain order (%r)", exc)
        self._count_out(first[1])
        return first[2]

    def pop_oldest(self) -> tuple[object, object]:
        """Take the message that has waited longest, whatever its key. Costs a search: overflow only."""
        oldest = min(self._heap, key=_place)
        self._take_out(oldest)
        self._count_out(oldest[1])
        return oldest[2], oldest[3]

    def _notice_is_due(self) -> bool:
        return bool(self._notices) and self._notices[0].messages_before == 0

    def _count_out(self, place: int) -> None:
        """A message has left: the first notice behind it waits for one less."""
        position = bisect_right(self._notices, place, key=_notice_place)
        if position < len(self._notices):
            self._notices[position].messages_before -= 1
        else:
            self._newest -= 1

    def _take_out(self, entry: tuple[Any, int, object, object]) -> None:
        self._heap = [other for other in self._heap if other is not entry]
        try:
            heapify(self._heap)
        except Exception as exc:
            _log.error("priority keys that do not compare with one another: served in no certain order (%r)", exc)


def _notice_place(waiting: Waiting) -> int:
    return waiting.place
