"""A page of memory that a worker shares with the main process: it says whose code the worker runs.

A worker that runs a handler cannot be asked: its thread is busy, and code in C may keep the interpreter's lock. So it
writes to memory whose code comes next, and the main process looks there when it has to know. Nothing waits for anybody.

>>> page = SharedPage.make()
>>> other = SharedPage(page.fd)
>>> other.words[HOLDER] = 7
>>> page.words[HOLDER]
7
>>> page.close(), other.close()
(None, None)
"""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress

__all__ = ["HOLDER", "MARKS", "NUMBERED", "TICKS", "SharedPage"]

HOLDER = 0
"""The word that says who holds the worker's thread: the id of a cell in the worker, 0 for nobody."""
TICKS = 1
"""The word that says how many ticks the worker has made."""
MARKS = 2
"""The first word of the marks: two for each actor whose messages are to outlive the worker. The number of the first
message that is not done, with all that it has sent, and that of the first which was not begun."""
NUMBERED = 1 << 63
"""Set if the holder is given as the number of an executor: while something is decoded for its actor."""


class SharedPage:
    """One page, as 64-bit words. It is freed with the last process that has it open."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, mmap.PAGESIZE)
        self.words = memoryview(self._memory).cast("Q")

    @classmethod
    def make(cls) -> SharedPage:
        """A new page, which has no name."""
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("greenroom")
        else:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        try:
            os.ftruncate(fd, mmap.PAGESIZE)
            return cls(fd)
        except BaseException:
            os.close(fd)
            raise

    def close_fd(self) -> None:
        """Close the descriptor, which the mapping does not need."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)

    def close(self) -> None:
        """Give the page back."""
        self.close_fd()
        self.words.release()
        self._memory.close()
