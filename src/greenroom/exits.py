"""Why an actor ended, as a value.

>>> ExitReason.of(ValueError("bad")).kind
<ExitKind.FAIL: 'fail'>
>>> ExitReason.of(GeneratorExit()).kind
<ExitKind.PANIC: 'panic'>
>>> NORMAL.abnormal, KILLED.abnormal
(False, True)
>>> print(ExitReason.of(ValueError("bad")))
fail: ValueError: bad
"""

from __future__ import annotations

from asyncio.exceptions import CancelledError
from dataclasses import dataclass
from enum import Enum

from greenroom.errors import WorkerLost
from greenroom.errortext import in_words
from greenroom.frozen import ByFields


class ExitKind(Enum):
    """How an actor ended, as supervisors distinguish it."""

    NORMAL = "normal"
    """It stopped by its own will, or was asked to."""
    SHUTDOWN = "shutdown"
    """Its supervisor or the system stopped it."""
    FAIL = "fail"
    """A handler or hook raised, or it was failed from outside."""
    PANIC = "panic"
    """Something no handler is meant to raise, or its thread, process or node died."""
    KILLED = "killed"
    """It was killed: no `pre_stop`, nothing could trap it."""


_ABNORMAL = frozenset({ExitKind.FAIL, ExitKind.PANIC, ExitKind.KILLED})


@dataclass(frozen=True, eq=False, repr=False)
class ExitReason(ByFields):
    """The kind of an actor's end and, for a failure, its cause."""

    kind: ExitKind
    cause: BaseException | None = None

    @property
    def abnormal(self) -> bool:
        """Whether a transient child would be restarted after this end."""
        return self.kind in _ABNORMAL

    @classmethod
    def of(cls, cause: BaseException) -> ExitReason:
        """The reason for an actor whose handler let `cause` out.

        A `CancelledError` without a request to cancel is an ordinary failure; any other exception that is not an
        `Exception` is a panic, and so is the loss of the thread or process that ran it.
        """
        ordinary = isinstance(cause, Exception | CancelledError) and not isinstance(cause, WorkerLost)
        return cls(ExitKind.FAIL if ordinary else ExitKind.PANIC, cause)

    def __str__(self) -> str:
        if self.cause is None:
            return self.kind.value
        return f"{self.kind.value}: {in_words(self.cause)}"


NORMAL = ExitReason(ExitKind.NORMAL)
SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)
KILLED = ExitReason(ExitKind.KILLED)
FORCED = ExitReason(ExitKind.KILLED)
"""The actor did not stop in time, and its handler or hook was cancelled. To others, that is a kill; its hooks ran."""


def ends_system(cause: BaseException) -> bool:
    """Whether `cause` stops the whole system instead of one actor: Ctrl-C, and a request to exit."""
    return isinstance(cause, KeyboardInterrupt | SystemExit)
