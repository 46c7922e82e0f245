"""The hand-off between threads: what other threads bring to a loop, in order of arrival, without a lock.

Any thread puts entries in, at any time; one thread at a time takes them out, which is the loop's own until it has
stopped. Compiled, an entry is a link of a chain: who brings one swaps it for the chain's end, and ties it to what was
the end before. No thread waits for another. In plain Python it is a `deque`, whose two ends are safe by themselves.

An entry that is not tied yet, because its thread was interrupted between the two steps, hides those behind it for that
moment. So `waiting` says yes as soon as the first step is done, and `has_next` may say no all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from greenroom._core.build import COMPILED

Entry = tuple[Any, Any, Any, Any]
"""A cell, a lane or what stands for one, a message, a sender."""


class Intake:
    """Entries of four objects each. The queue is unbounded: who brings something has asked for room before."""

    def __init__(self) -> None:
        self._entries: deque[Entry] | None = None if COMPILED else deque()
        # How many are taken for now, in plain Python.
        self._left = 0
        if COMPILED:
            start_chain(self)

    def __dealloc__(self) -> None:
        if COMPILED:
            end_chain(self)

    def put(self, cell: object, lane: object, message: object, sender: object) -> None:
        """Append an entry. From any thread."""
        if COMPILED:
            append_link(self, cell, lane, message, sender)
        else:
            self._entries.append((cell, lane, message, sender))  # type: ignore[union-attr]

    def waiting(self) -> bool:
        """Whether there is something to take, or will be in a moment. For the thread that takes."""
        if COMPILED:
            waits: bool = has_links(self)
            return waits
        return bool(self._entries)

    def begin(self) -> None:
        """Mark where `has_next` ends: what comes later waits for the next time."""
        if COMPILED:
            begin_chain(self)
        else:
            self._left = len(self._entries)  # type: ignore[arg-type]

    def has_next(self) -> bool:
        """Whether there is one more of those that were here at `begin`. For the thread that takes."""
        if COMPILED:
            has: bool = has_entry(self)
            return has
        return self._left > 0

    def first(self) -> Entry:
        """The oldest entry, which must be there, and stays."""
        if COMPILED:
            entry: Entry = entry_tuple(entry_parts(self))
            return entry
        return self._entries[0]  # type: ignore[index]

    def drop_first(self) -> None:
        """Forget the oldest entry, which must be there."""
        if COMPILED:
            drop_link(self)
        else:
            self._left -= 1
            self._entries.popleft()  # type: ignore[union-attr]

    def __iter__(self) -> Iterator[Entry]:
        """All entries, oldest first; they stay. For the thread that takes."""
        return iter(links_of(self) if COMPILED else list(self._entries))  # type: ignore[arg-type]


if COMPILED:
    show_links()
