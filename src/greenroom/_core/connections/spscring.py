# cython: boundscheck=False, wraparound=False, nonecheck=False
"""A ring of messages from one thread to another: one producer, one consumer, no lock.

The slots are made with the ring; a push allocates nothing. The ring can be *closed* by its consumer. From then on the
producer is refused, and everything that it was told had been pushed is in the ring: closing and pushing are one atomic
step each. *Opened* again, the ring goes on where it was; what it holds has stayed, in order.

Compiled, head and tail are counters on cache lines of their own, and `closed` is a bit of the tail: a producer that has
read the tail before the ring was closed cannot write it afterwards. In plain Python the ring is a `deque`, whose two
ends are safe by themselves. There a producer looks once more after it has pushed, and takes its message back if the
ring was closed meanwhile, unless the consumer has it already.
"""

from __future__ import annotations

from collections import deque

from greenroom._core.build import COMPILED

SENT = 0
FULL = 1
CLOSED = 2
"""What becomes of a message that is pushed."""

_made = [0]


def rings_made() -> int:
    """How many rings this process has made: who promises to make none can be held to it."""
    return _made[0]


class SpscRing:
    """At most `capacity` messages, in the order they were pushed."""

    __slots__ = ("_is_closed", "_items", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._is_closed = False
        self._items: deque[object] = deque()
        _made[0] += 1
        if COMPILED:
            make_slots(self)

    def __dealloc__(self) -> None:
        if COMPILED:
            free_slots(self)

    def push(self, message: object) -> int:
        """Append a message: `SENT`, `FULL` or `CLOSED`. For the producer."""
        if COMPILED:
            fate: int = push_message(self, message)
            return fate
        if self._is_closed:
            return CLOSED
        if len(self._items) >= self.capacity:
            return FULL
        self._items.append(message)
        if not self._is_closed:
            return SENT
        try:
            self._items.pop()
        except IndexError:
            return SENT  # the consumer was quicker: it has the message
        return CLOSED

    def count(self) -> int:
        """How many messages it holds. From any thread, a glance."""
        if COMPILED:
            held: int = count_messages(self)
            return held
        return len(self._items)

    def pop(self) -> object:
        """Take the oldest message; there must be one. For the consumer."""
        if COMPILED:
            return take_message(self)
        return self._items.popleft()

    def close(self) -> None:
        """Refuse pushes from now on. For the consumer."""
        if COMPILED:
            close_slots(self)
        else:
            self._is_closed = True

    def open(self) -> None:
        """Accept pushes again, behind what is here. For the consumer."""
        if COMPILED:
            open_slots(self)
        else:
            self._is_closed = False

    def is_closed(self) -> bool:
        """Whether nothing can be pushed. From any thread, a glance."""
        if COMPILED:
            closed: bool = slots_closed(self)
            return closed
        return self._is_closed


if COMPILED:
    show_slots()
