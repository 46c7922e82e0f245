"""Kills a worker that has become an orphan, where the kernel does not do that by itself.

Linux sends a worker a signal when its parent ends. Elsewhere a shell waits for the end of a pipe that only the main
process holds open, and then kills the worker. A thread of the worker could not: code in C may keep the interpreter's
lock, and a process that is stopped runs nothing.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress

from greenroom.wire.forks import no_forks

__all__ = ["OrphanReaper"]

_SCRIPT = 'read -r line || kill -9 "$0" 2> /dev/null'
"""Kills the process whose id is its name, unless it gets a line before the end of its input."""


class OrphanReaper:
    """A process that kills another one when this one is gone."""

    def __init__(self, pid: int) -> None:
        # In a session of its own, so that Ctrl-C does not end it.
        with no_forks:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, str(pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def dismiss(self) -> None:
        """The other process has ended."""
        with suppress(OSError):
            self._process.communicate(b"\n")

    def after_fork(self) -> None:
        """In a forked child: only the parent holds the pipe."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
