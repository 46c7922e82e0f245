"""The messages between the main process and its workers.

A frame to a worker says one thing. Its first part is the head: a tuple that begins with one of the words that
`WorkerHost` knows. The rest is a value; if the worker cannot decode it, it reports that. A frame to the main process is
mail: a list of such tuples, collected during a tick. Frames arrive in order. So what a handler sends reaches the main
process before the report that the handler is done.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

__all__ = [
    "BLOCKS",
    "MAIL",
    "ORDER",
    "STASHED",
    "UNHANDLED",
    "WAITS_FOR_ROOM",
    "Asked",
    "Brought",
    "Entry",
    "Progress",
    "WorkerConfig",
    "WorkerSettings",
]

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
"""Its handler blocks the worker's thread until the answer comes."""
WAITS_FOR_ROOM = 2
"""Its message waits for room in a full mailbox."""


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


class Brought(NamedTuple):
    """Stands for the sender of a message that brings context variables along."""

    sender: object
    """A ref, nobody, or an `Asked`."""
    values: list[tuple[int, object]]


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
