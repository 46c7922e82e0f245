"""A pipe in memory, between a port and a program that is a script.

At the port's side it looks like a descriptor: it tells when it is ready, and takes and gives what it can at once. So a
port reads and writes as it does with a real program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from greenroom._core.scheduler.fdwatch import READ, WRITE
from greenroom.meta.streams.alarms import set_call

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.simulated.link import LinkFaults
    from greenroom.seededrandom import Random

__all__ = ["Pipe", "ReadEnd", "WriteEnd"]

CAPACITY = 65_536
"""Bytes that it holds: as many as Linux's do."""


class Pipe:
    """One direction. What is written is on its way first, as the faults have it; then it can be read."""

    def __init__(self, loop: Loop, random: Random, faults: LinkFaults, on_cut: Callable[[], object]) -> None:
        self._loop = loop
        self._random = random
        self._faults = faults
        self._on_cut = on_cut
        self._on_its_way: deque[bytes] = deque()
        # How many of them have arrived, and wait for room; and when the last of them does.
        self._late = 0
        self._due = 0.0
        self._arrived: deque[bytes] = deque()
        # Bytes that are on their way, and that have arrived.
        self._sent = 0
        self._unread = 0
        # Whether nothing more is written; and whether nothing more is read.
        self.is_closed = False
        self.is_lost = False
        # Who is told that something is different.
        self.on_change: list[Callable[[], object]] = []

    # -- the one who writes

    def write(self, data: bytes) -> None:
        """Send it, in one piece or in several."""
        if self.is_closed or self.is_lost or not data:
            return
        for piece in self._faults.pieces(data, self._random):
            for start in range(0, len(piece), CAPACITY):
                self._send(piece[start : start + CAPACITY])

    def _send(self, piece: bytes) -> None:
        self._on_its_way.append(piece)
        self._sent += len(piece)
        now = self._loop.now()
        self._due = max(self._due, now + self._faults.seconds(self._random))
        set_call(self._loop, self._due - now, self._arrive)

    def room(self) -> int:
        """Bytes that can be written until something is read."""
        return max(0, CAPACITY - self._sent - self._unread)

    def is_flushed(self) -> bool:
        """Whether all that was written has arrived."""
        return not self._on_its_way

    def close(self) -> None:
        """Write no more; what was written arrives, and then the end."""
        self.is_closed = True
        self._tell()

    def break_off(self) -> None:
        """Write no more, and not even what is on its way."""
        self._on_its_way.clear()
        self._sent = self._late = 0
        self.close()

    # -- on the way

    def _arrive(self) -> None:
        if not self._on_its_way:
            return  # it was broken off
        if self._faults.strikes(self._random):
            self._on_cut()
            return
        self._late += 1
        self._move()
        self._tell()

    def _move(self) -> None:
        """Let what has arrived be read, as far as there is room."""
        while self._late and self._unread + len(self._on_its_way[0]) <= CAPACITY:
            piece = self._on_its_way.popleft()
            self._late -= 1
            self._sent -= len(piece)
            self._unread += len(piece)
            self._arrived.append(piece)

    def _tell(self) -> None:
        for call in self.on_change:
            call()

    # -- the one who reads

    def can_read(self) -> bool:
        """Whether there is something, or never will be."""
        return bool(self._arrived) or (self.is_closed and not self._on_its_way)

    def read(self, most: int = CAPACITY) -> bytes | None:
        """The next piece, or the first bytes of it; empty at the end, None if there is nothing yet."""
        if not self._arrived:
            return b"" if self.can_read() else None
        piece = self._arrived.popleft()
        if len(piece) > most:
            self._arrived.appendleft(piece[most:])
            piece = piece[:most]
        self._unread -= len(piece)
        self._move()
        self._tell()
        return piece

    def lose(self) -> None:
        """Read no more: nobody can write any more."""
        self.is_lost = True
        self._on_its_way.clear()
        self._arrived.clear()
        self._sent = self._late = self._unread = 0
        self._tell()


class PortEnd:
    """The port's end: it tells when it is ready, again and again while it is."""

    def __init__(self, loop: Loop, pipe: Pipe) -> None:
        self._loop = loop
        self._pipe = pipe
        self._wanted = 0
        self._ready: Callable[[int], object] | None = None
        self._is_paused = False
        self._looks = False
        pipe.on_change.append(self._look_soon)

    def watch(self, events: int, ready: Callable[[int], object]) -> None:
        """Call `ready(events)` when it can be read or written."""
        self._wanted, self._ready, self._is_paused = events, ready, False
        self._look_soon()

    def pause(self) -> None:
        """Say nothing for now."""
        self._is_paused = True

    def resume(self) -> None:
        """Go on."""
        self._is_paused = False
        self._look_soon()

    def unwatch(self) -> None:
        """Say nothing more."""
        self._ready = None

    def _events(self) -> int:
        raise NotImplementedError

    def _look_soon(self) -> None:
        if not self._looks and self._ready is not None and not self._is_paused:
            self._looks = True
            set_call(self._loop, 0.0, self._look)

    def _look(self) -> None:
        self._looks = False
        if self._ready is not None and not self._is_paused and (events := self._events() & self._wanted):
            self._ready(events)
            self._look_soon()


class ReadEnd(PortEnd):
    """Where a port reads."""

    def _events(self) -> int:
        return READ if self._pipe.can_read() else 0

    def read(self, most: int) -> bytes:
        """What is there; `BlockingIOError` if that is nothing yet."""
        data = self._pipe.read(most)
        if data is None:
            raise BlockingIOError
        return data


class WriteEnd(PortEnd):
    """Where a port writes."""

    def _events(self) -> int:
        return (READ if self._pipe.is_lost else 0) | (WRITE if self._pipe.room() else 0)

    def write(self, data: memoryview) -> int:
        """Write as much as there is room for: how many bytes; `BlockingIOError` if there is none."""
        if self._pipe.is_lost:
            raise BrokenPipeError
        room = self._pipe.room()
        if not room:
            raise BlockingIOError
        taken = bytes(data[:room])
        self._pipe.write(taken)
        return len(taken)

    def close(self) -> None:
        """Let the program see the end."""
        self._pipe.close()
