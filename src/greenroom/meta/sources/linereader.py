"""`LineReader`: the lines of a file or a FIFO, now and as they come."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from greenroom.errors import ConfigError
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.sockets.messages import Closed
from greenroom.meta.streams.framing import require_encoding
from greenroom.validation import is_whole, require_count, require_seconds

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef, Alias

CHUNK = 1 << 16
LONGEST_WAIT = 0.25
"""Seconds after which a reader that waits for a FIFO looks whether its owner has ended."""


@dataclass(slots=True, unsafe_hash=True)
class Line:
    """A line, without its end. `position` is where the next one begins, in bytes from the start of the file."""

    alias: Alias
    data: Any
    position: int


@dataclass(slots=True, unsafe_hash=True)
class Rotated:
    """The file that is followed is another one from now on, or begins anew: positions count from 0 again."""

    alias: Alias
    path: str


class LineReader(MetaProcess):
    """Reads a file line by line. Its owner gets `Line(alias, data, position)`, and last `Closed(alias, "eof")`.

    With `follow`, it waits for more at the end of the file, as `tail -F` does: when the file is rotated (another one
    has its name) or cut short, it goes on with the new one from its start, and tells the owner `Rotated`. A FIFO that
    is followed waits for its next writer.

    It reads on a thread of its own. When the owner's mailbox is full, it waits.

    Args:
        path: The file, or FIFO.
        owner: Who is told, and with whom it ends. The parent, by default.
        follow: Whether it goes on at the end of the file.
        start: `"beginning"`, `"end"`, or the position to begin at: a line's own, to go on after it.
        encoding: With one, lines are text; what is no such text is replaced. Without, they are bytes.
        max_size: Bytes: a longer line comes in pieces.
        interval: Seconds between two looks at a file that is followed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        owner: ActorRef | None = None,
        follow: bool = False,
        start: Literal["beginning", "end"] | int = "beginning",
        encoding: str | None = None,
        max_size: int = 1 << 20,
        interval: float = 0.1,
    ) -> None:
        if start not in ("beginning", "end") and not is_whole(start, 0):
            raise ConfigError("start", start, 'must be "beginning", "end", or a position')
        require_count("max_size", max_size)
        require_seconds("interval", interval)
        require_encoding(encoding)
        self._path = Path(path)
        self._owner = owner
        self._follow = follow
        self._start = start
        self._encoding = encoding
        self._max_size = max_size
        self._interval = interval
        self._fd = -1
        self._has_started = False
        self._position = 0
        self._lines = 0
        self._rest = bytearray()

    def init(self) -> None:
        """Open the file: if that fails, there is no reader, and `spawn_meta` raises."""
        self._open()
        if not self._is_fifo():
            if self._start == "end":
                self._position = os.lseek(self._fd, 0, os.SEEK_END)
            elif isinstance(self._start, int):
                self._position = os.lseek(self._fd, self._start, os.SEEK_SET)

    def _open(self) -> None:
        # A FIFO without a writer would block here, and nothing could end that.
        self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def _is_fifo(self) -> bool:
        return stat.S_ISFIFO(os.fstat(self._fd).st_mode)

    @property
    def _recipient(self) -> ActorRef:
        return self._owner or self.parent

    def start(self) -> None:
        self._has_started = True  # from now on the descriptor is this thread's alone
        try:
            self._read()
        finally:
            self._close()

    def _read(self) -> None:
        read = self._read_fifo if self._is_fifo() else self._read_file
        for chunk in read():
            self._rest += chunk
            self._tell_lines()
        if not self.stopping and self._recipient.is_alive:
            self._tell_rest()
            self.send(self._recipient, Closed(self.id, "eof"), wait=True)

    # -- reading

    def _read_file(self) -> Iterator[bytes]:
        while not self.stopping and self._recipient.is_alive:
            chunk = os.read(self._fd, CHUNK)
            if chunk:
                yield chunk
            elif not self._follow or self.wait(self._interval):
                return
            elif self._has_changed():
                yield from self._drain()
                self._begin_anew()

    def _drain(self) -> Iterator[bytes]:
        """Read what was written to a file that is gone, between the last read and the look at its name."""
        if os.lseek(self._fd, 0, os.SEEK_CUR) <= os.fstat(self._fd).st_size:
            while chunk := os.read(self._fd, CHUNK):
                yield chunk

    def _has_changed(self) -> bool:
        mine = os.fstat(self._fd)
        try:
            named = self._path.stat()
        except OSError:
            return False  # between the old one and the new
        if not stat.S_ISREG(named.st_mode):
            return False  # something else has its name, for now
        has_read = self._position + len(self._rest)
        return (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino) or named.st_size < has_read

    def _begin_anew(self) -> None:
        before = self._fd
        try:
            self._open()
        except OSError:
            return  # it has gone again; there will be another look
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):  # likewise
            os.close(self._fd)
            self._fd = before
            return
        os.close(before)
        self._tell_rest()
        self._position = 0
        self.send(self._recipient, Rotated(self.id, str(self._path)), wait=True)

    def _read_fifo(self) -> Iterator[bytes]:
        """Read what any writer writes, and wait for the first."""
        has_read = False
        while not self.stopping and self._recipient.is_alive:
            if not self.wait_readable(self._fd, LONGEST_WAIT):
                continue
            try:
                chunk = os.read(self._fd, CHUNK)
            except BlockingIOError:
                continue
            if chunk:
                has_read = True
                yield chunk
            elif (has_read and not self._follow) or self.wait(self._interval):
                return

    # -- telling

    def _tell_lines(self) -> None:
        rest, start = self._rest, 0
        while (end := rest.find(b"\n", start)) >= 0:
            while end - start > self._max_size:
                self._tell(bytes(rest[start : start + self._max_size]), self._max_size)
                start += self._max_size
            self._tell(bytes(rest[start:end]), end + 1 - start)
            start = end + 1
        del rest[:start]
        while len(rest) > self._max_size:
            self._tell(bytes(rest[: self._max_size]), self._max_size)
            del rest[: self._max_size]

    def _tell_rest(self) -> None:
        """Tell a last line without an end."""
        if self._rest:
            rest = bytes(self._rest)
            self._rest.clear()
            self._tell(rest, len(rest))

    def _tell(self, line: bytes, length: int) -> None:
        self._position += length
        self._lines += 1
        data = line if self._encoding is None else line.decode(self._encoding, "replace")
        self.send(self._recipient, Line(self.id, data, self._position), wait=True)

    async def inspect(self, *items: str) -> Mapping[str, Any]:  # type: ignore[override]
        shown = {"path": str(self._path), "position": self._position, "lines": self._lines, "follow": self._follow}
        return {name: shown[name] for name in items if name in shown} if items else shown

    async def terminate(self, reason: object) -> None:
        self._give_up()

    def _give_up(self) -> None:
        if not self._has_started:  # else the reader closes it
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
