"""What a kubelet and the supervisors of its pods tell one another."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from greenroom.actor.failure.reports import FailureSource

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.exits import ExitReason
    from greenroom.pods.kubelet.podrecord import PodRecord

__all__ = ["Decision", "OuterEnds", "PodEnded", "PodNotice", "PodStarted", "RestartDue", "Verdict"]


class PodNotice(FailureSource):
    """A notice about one pod."""

    __slots__ = ("pod",)

    def __init__(self, pod: PodRecord) -> None:
        self.pod = pod

    def __str__(self) -> str:
        return f"over the pod {self.pod.name!r}"


class PodStarted(PodNotice):
    """The pod runs."""

    __slots__ = ()


class PodEnded(PodNotice):
    """The pod's actors have ended, or one of them has; `alone` if its supervisor has ended too.

    `gone` is the cell of a supervisor that has ended for good: the pod may have another one by now.
    """

    __slots__ = ("alone", "gone", "reason")

    def __init__(self, pod: PodRecord, reason: ExitReason, alone: bool = False, gone: Cell | None = None) -> None:
        super().__init__(pod)
        self.reason = reason
        self.alone = alone
        self.gone = gone


class RestartDue(PodNotice):
    """It is time for the pod's restart."""

    __slots__ = ()


class OuterEnds(PodNotice):
    """The troupe above comes to its end: the one within, which is this pod of it, ends first."""

    __slots__ = ()


class Decision(Enum):
    """What the kubelet has decided."""

    WAIT = "wait"
    """It is restarted, but not now."""
    RESTART = "restart"
    LET_GO = "let go"


class Verdict(PodNotice):
    """What becomes of the pod, also in words; and in how many seconds, if it is to wait."""

    __slots__ = ("acts_in", "decision", "remedy", "words")

    def __init__(
        self, pod: PodRecord, decision: Decision, words: str = "", acts_in: float = 0.0, remedy: str = ""
    ) -> None:
        super().__init__(pod)
        self.decision = decision
        self.words = words
        self.acts_in = acts_in
        self.remedy = remedy
