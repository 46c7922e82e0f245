"""Where a pod is in its life.

>>> can_follow(PodPhase.PENDING, PodPhase.RUNNING), can_follow(PodPhase.COMPLETED, PodPhase.RUNNING)
(True, False)
>>> print(PodStatus(PodPhase.FAILED, ValueError("bad")))
failed: ValueError: bad
"""

from __future__ import annotations

from enum import Enum

from greenroom.errors.base import in_words
from greenroom.frozen import Frozen

__all__ = ["PodPhase", "PodStatus", "can_follow"]


class PodPhase(Enum):
    """The phase of a pod's life. A restarted pod is PENDING again until it runs."""

    PENDING = "pending"
    """It is declared, and does not run yet; or it is about to be restarted."""
    RUNNING = "running"
    """Its actors handle messages."""
    TERMINATING = "terminating"
    """It was told to stop, and is stopping its actors."""
    COMPLETED = "completed"
    """Its actors have ended by themselves, or because it was told to stop."""
    FAILED = "failed"
    """One of its actors has failed."""


_NEXT = {
    PodPhase.PENDING: (PodPhase.RUNNING, PodPhase.COMPLETED, PodPhase.FAILED, PodPhase.TERMINATING),
    PodPhase.RUNNING: (PodPhase.COMPLETED, PodPhase.FAILED, PodPhase.TERMINATING),
    PodPhase.TERMINATING: (PodPhase.COMPLETED, PodPhase.FAILED),
    PodPhase.COMPLETED: (PodPhase.PENDING,),
    PodPhase.FAILED: (PodPhase.PENDING, PodPhase.TERMINATING),
}


def can_follow(phase: PodPhase, after: PodPhase) -> bool:
    """Whether a pod goes from one phase to another."""
    return after in _NEXT[phase]


class PodStatus(Frozen):
    """A pod's phase; for one that has failed, why; and how often it was restarted."""

    __slots__ = ("phase", "reason", "restarts")

    phase: PodPhase
    reason: BaseException | None
    restarts: int

    def __init__(self, phase: PodPhase, reason: BaseException | None = None, restarts: int = 0) -> None:
        self._set(phase, reason, restarts)

    @property
    def is_over(self) -> bool:
        """Whether its actors have ended. It may be restarted."""
        return self.phase in (PodPhase.COMPLETED, PodPhase.FAILED)

    def __str__(self) -> str:
        return self.phase.value if self.reason is None else f"{self.phase.value}: {in_words(self.reason)}"
