# cython: boundscheck=False, wraparound=False, nonecheck=False
"""A FIFO of messages with their senders, two slots each, in one array used as a ring.

A message costs no allocation: it and its sender stand in slots that are there already. The array is made on first use
(an actor that never got a message has none), doubles when it is full, and is given back when a burst is over. In plain
Python it is a list. Compiled, it is bare memory, which the ring itself shows to the garbage collector, and a ring has
two slots of its own: an array is made for the second message that waits, and most actors never need one.

The slots are read and written in place by `Cell` and `Visits`, which would pay for a call across modules at
every message; the rules they keep are the invariants below.
"""

from __future__ import annotations

from greenroom._core.build import COMPILED

SMALLEST = 4
"""Slots of a first array: two messages."""
KEPT = 64
"""An array of up to this many slots is kept for good: short bursts then cost no allocation."""
NO_SLOTS = 1 if COMPILED else -1
"""The mask of a ring without an array: compiled, it has two slots all the same."""


class Ring:
    """Messages in order of arrival. Bounds are its user's business."""

    __slots__ = ("buf", "count", "head", "mask")

    def __init__(self) -> None:
        self.set_up_ring()

    def set_up_ring(self) -> None:
        """What `__init__` does, for subclasses, which call it without looking it up."""
        # Invariant: mask + 1 == len(buf), a power of two, or mask == NO_SLOTS and buf is None; compiled, the array
        # stands for buf
        self.buf: list[object] | None = None
        self.mask = NO_SLOTS
        # Invariant: the i-th message stands at (head + 2 * i) & mask, its sender one slot later; other slots are free,
        # which is None in a list, and anything at all in an array
        self.head = 0
        self.count = 0

    def __dealloc__(self) -> None:
        if COMPILED:
            while self.count > 0:
                pop_first(self)
            free_array(self)

    def push(self, message: object, sender: object) -> None:
        """Append a message."""
        while self.count * 2 > self.mask:
            self.grow()
        self._put((self.head + self.count * 2) & self.mask, message, sender)
        self.count += 1

    def push_front(self, message: object, sender: object) -> None:
        """Put a message before all others."""
        while self.count * 2 > self.mask:
            self.grow()
        head = (self.head - 2) & self.mask
        self._put(head, message, sender)
        self.head = head
        self.count += 1

    def first_sender(self) -> object:
        """The sender of the oldest message; there must be one."""
        return self._at(self.head + 1)

    def pop(self) -> object:
        """Take the oldest message; there must be one. Ask for its sender first."""
        if COMPILED:
            return pop_first(self)
        head = self.head
        buf = self.buf
        message = buf[head]  # type: ignore[index]
        sender = buf[head + 1]  # type: ignore[index]
        buf[head] = buf[head + 1] = None  # type: ignore[index]
        self.head = (head + 2) & self.mask
        self.count -= 1
        # Only now, with the ring in order again, may the sender's last reference go: its finalizer may send.
        del sender
        return message

    def message_at(self, position: int) -> object:
        """The message at `position`, counted from the oldest; there must be one."""
        return self._at((self.head + position * 2) & self.mask)

    def sender_at(self, position: int) -> object:
        """The sender of the message at `position`, counted from the oldest; there must be one."""
        return self._at(((self.head + position * 2) & self.mask) + 1)

    def _put(self, slot: int, message: object, sender: object) -> None:
        if COMPILED:
            put_at(self, slot, message, sender)
            return
        self.buf[slot] = message  # type: ignore[index]
        self.buf[slot + 1] = sender  # type: ignore[index]

    def _at(self, slot: int) -> object:
        return slot_at(self, slot) if COMPILED else self.buf[slot]  # type: ignore[index]

    def peek(self, position: int, most: int) -> tuple[list[object], list[object]]:
        """The messages from `position` on, and their senders; at most so many. They stay where they are."""
        messages: list[object] = []
        senders: list[object] = []
        last = min(position + most, self.count)
        while position < last:
            slot = (self.head + position * 2) & self.mask
            messages.append(self._at(slot))
            senders.append(self._at(slot + 1))
            position += 1
        return messages, senders

    def remove(self, position: int) -> object:
        """Take the message at `position` out of the order; those before it move up by one."""
        if COMPILED:
            bring_to_front(self, position)
            return pop_first(self)
        buf = self.buf
        slot = (self.head + position * 2) & self.mask
        message = buf[slot]  # type: ignore[index]
        sender = buf[slot + 1]  # type: ignore[index]
        while slot != self.head:
            before = (slot - 2) & self.mask
            buf[slot] = buf[before]  # type: ignore[index]
            buf[slot + 1] = buf[before + 1]  # type: ignore[index]
            slot = before
        self.pop()
        del sender  # as in pop()
        return message

    def grow(self) -> None:
        """Double the array, oldest message first."""
        if COMPILED:
            grow_array(self)
            return
        while True:
            old = self.buf
            if old is None:
                new: list[object] = [None] * SMALLEST
            else:
                new = old[self.head :] + old[: self.head] + [None] * len(old)
            # Making a list may run a finalizer that sends a message here: only a ring that stood still is replaced.
            if self.buf is old:
                break
        self.buf = new
        self.mask = len(new) - 1
        self.head = 0

    def trim(self) -> None:
        """Give a large array back; the ring must be empty."""
        if self.mask < KEPT:
            return
        if COMPILED:
            free_array(self)
            return
        self.buf = None
        self.mask = NO_SLOTS
        self.head = 0


if COMPILED:
    show_ring(Ring())
