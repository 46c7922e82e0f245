"""The journal of a history: what happened, one line each, in the order in which it was written.

It is a file, and a line is written by one `write` at its end. So threads and processes can share it without a lock, it
owes nothing to the runtime that is tested, and what a process wrote is there after it was killed.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Event", "Journal", "journal_at", "read_journal"]


class Event(NamedTuple):
    """One line: when (seconds of the machine's monotonic clock), which process, what, and the rest."""

    time: float
    pid: int
    what: str
    rest: list[Any]

    def __str__(self) -> str:
        return f"{self.time:.4f} [{self.pid}] {self.what} {' '.join(str(one) for one in self.rest)}"


class Journal:
    """Where a process writes. From any thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, what: str, *rest: object) -> None:
        """Add a line."""
        line = json.dumps([time.monotonic(), os.getpid(), what, rest], default=str)
        os.write(self._fd, line.encode() + b"\n")

    def close(self) -> None:
        """Write no more; forget the file."""
        _open.pop(self.path, None)
        os.close(self._fd)


_open: dict[str, Journal] = {}


def journal_at(path: str) -> Journal:
    """The journal of this process in that file; a worker process opens it once for all its actors."""
    found = _open.get(path)
    return _open.setdefault(path, Journal(path)) if found is None else found


def read_journal(path: str) -> list[Event]:
    """All lines. A line that a dying process has not finished is left out."""
    events = []
    for line in Path(path).read_text(errors="replace").splitlines():
        try:
            events.append(Event(*json.loads(line)))
        except ValueError:
            continue
    return events
