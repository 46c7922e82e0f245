"""What the main process and its workers have in common: the messages between them, and a page of memory.

A frame to a worker says one thing. Its first part is the head: a tuple that begins with one of the words that
`WorkerHost` knows. The rest is a value; if the worker cannot decode it, it reports that. A frame to the main process is
mail: a list of such tuples, collected during a tick. Frames arrive in order. So what a handler sends reaches the main
process before the report that the handler is done.

A worker that runs a handler cannot be asked: its thread is busy, and code in C may keep the interpreter's lock. So it
writes to the page whose code comes next, and the main process looks there when it has to know. Nothing waits.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypedDict

from greenroom.wire.codec import unpacked
from greenroom.wire.failures import Failure

Entry = tuple[Any, ...]
"""The head of a frame to a worker, or one entry of the mail: a word, and its arguments."""

ORDER = 1
"""The kind of a frame to a worker."""
MAIL = 2
"""The kind of a frame to the main process."""

UNHANDLED = 1
STASHED = 2

# How a hosted actor asks.
BLOCKS = 1
"""The handler blocks the worker's thread until the answer comes."""
WAITS_FOR_ROOM = 2
"""The message waits for room in a full mailbox."""


class WorkerSettings(TypedDict):
    """What a worker must know of its system."""

    secret: str
    """The secret of the connection, in hexadecimal."""
    path: list[str]
    """`sys.path` of the main process."""
    name: str
    system: str
    limit: int
    """The maximum size of a frame, in bytes."""
    manual: bool
    """Whether the system has a `ManualClock`."""
    log: int
    """The level of the root logger."""
    slow_after: float
    stuck_after: float
    """Seconds after which a handler is slow, or stuck; 0 not to look for stuck ones."""
    propagate: list[list[str]]
    """Where the context variables are that travel with messages."""


class WorkerConfig(WorkerSettings):
    """What a worker gets over its lifeline, as JSON."""

    fd: int
    """The number of its socket."""
    lifeline: int
    """The number of the pipe over which it gets this; the main process closes the other end when it is to end."""
    page: int
    """The number of the memory in which it says whose code it runs."""
    parent: int
    """The id of the main process."""
    signalled: bool
    """Whether the kernel can end it with the main process."""


class Asked(NamedTuple):
    """Stands for the sender of a message that was asked, by an actor or by other code (then it is None)."""

    sender: object


class Propagated(NamedTuple):
    """Stands for the sender of a message with which context variables travel."""

    sender: object
    """A ref, None, or an `Asked`."""
    values: list[tuple[int, object]]


class TimerHandle(NamedTuple):
    """Stands for a timer of the main process."""

    number: int


class RemotePipe(NamedTuple):
    """Stands, in the main process, for what an actor in a worker pipes to itself."""

    number: int

    def cancel(self) -> None:
        """Do nothing: the worker cancels the pipe when it stops hosting the actor."""


class Progress(NamedTuple):
    """How far a hosted actor is. Its messages are numbered, across all its incarnations."""

    done: int
    """All messages before this number are done. If the actor has failed, it was on this one."""
    asides: list[tuple[int, int]]
    """The messages among them that were not handled: their numbers, each with UNHANDLED or STASHED."""
    returned: int | None
    """Messages from this number on were not started, and will not be: they belong to the main process again."""
    epoch: int
    """How many times the actor has returned messages. It ignores messages that were sent in an earlier epoch."""
    waits: bool
    """Whether to send nothing more before this message is done: the actor has something to say first."""
    failure: object
    """The packed `Failure`, if the actor has failed."""


OnOutcome = Callable[[object], object]
"""Called with the outcome of something: the result, or a `Failure`."""


class Relay:
    """The part of a future that a question needs: it calls `tell` with the outcome."""

    __slots__ = ("_is_done", "_tell")

    def __init__(self, tell: OnOutcome) -> None:
        self._tell = tell
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def cancel(self) -> bool:
        return False  # the asker waits in another process

    def set_result(self, value: object) -> None:
        self._is_done = True
        self._tell(value)

    def set_exception(self, error: BaseException) -> None:
        self._is_done = True
        self._tell(Failure.of(error))


def outcome_of(sent: object) -> tuple[Any, BaseException | None]:
    """A result and no error, or an error: that of a `Failure`, or why the result cannot be decoded."""
    try:
        value = unpacked(sent)
    except Exception as exc:
        return None, exc
    return (None, value.restore()) if isinstance(value, Failure) else (value, None)


def error_of(failure: object) -> BaseException:
    _, error = outcome_of(failure)
    assert error is not None
    return error


HOLDER = 0
"""The word that says who holds the worker's thread: the id of a cell in the worker, or 0."""
TICKS = 1
"""The word that says how many ticks the worker has made."""
MARKS = 2
"""The first word of the marks: two for each actor whose messages are to outlive the worker. The number of the first
message that is not done, with all that it has sent, and that of the first which was not begun."""
NUMBERED = 1 << 63
"""Set if the holder is given as the number of an executor: while something is decoded for its actor."""


class SharedPage:
    """One page, as 64-bit words. It is freed with the last process that has it open.

    >>> page = SharedPage.make()
    >>> other = SharedPage(page.fd)
    >>> other.words[HOLDER] = 7
    >>> page.words[HOLDER]
    7
    >>> page.close(), other.close()
    (None, None)
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, mmap.PAGESIZE)
        self.words = memoryview(self._memory).cast("Q")

    @classmethod
    def make(cls) -> SharedPage:
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
        self.close_fd()
        self.words.release()
        self._memory.close()
