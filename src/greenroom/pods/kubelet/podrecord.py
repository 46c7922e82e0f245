"""A kubelet's record of one pod: its phase, where it is, and what is told to and fro about it.

>>> can_follow(PodPhase.PENDING, PodPhase.RUNNING), can_follow(PodPhase.COMPLETED, PodPhase.RUNNING)
(True, False)
>>> print(PodStatus(PodPhase.FAILED, ValueError("bad")))
failed: ValueError: bad
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING

from greenroom.actor.failure.engine import Member, Status
from greenroom.actor.failure.reports import FailureSource
from greenroom.actor.life.restarting import start_again
from greenroom.actor.records.restartstate import restart_state_of
from greenroom.errortext import in_words
from greenroom.exits import NORMAL, ExitKind, ExitReason
from greenroom.frozen import Frozen
from greenroom.policy.backoff import Delays
from greenroom.policy.directives import OnRestart

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.pods.assembly import ActorFactory, Assembly
    from greenroom.pods.manifest.pod import Pod
    from greenroom.pods.service.slot import PodSlot


class PodPhase(Enum):
    """The phase of a pod's life. A restarted pod is PENDING again until it runs."""

    PENDING = "pending"
    """The pod is declared, and does not run yet; or it is about to be restarted."""
    RUNNING = "running"
    """Its actors handle messages."""
    TERMINATING = "terminating"
    """The pod was told to stop, and is stopping its actors."""
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
    return after in _NEXT[phase]


@dataclass(eq=False, repr=False, slots=True)
class PodStatus(Frozen):
    """A pod's phase; for one that has failed, why; and how often it was restarted."""

    phase: PodPhase
    reason: BaseException | None = None
    restarts: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the pod's actors have ended. The pod may be restarted."""
        return self.phase in (PodPhase.COMPLETED, PodPhase.FAILED)

    def __str__(self) -> str:
        return self.phase.value if self.reason is None else f"{self.phase.value}: {in_words(self.reason)}"


# -- what a kubelet and the supervisors of its pods tell one another


class PodNotice(FailureSource):
    """A notice about one pod."""

    __slots__ = ("pod",)

    def __init__(self, pod: PodRecord) -> None:
        self.pod = pod

    def __str__(self) -> str:
        return f"over the pod {self.pod.name!r}"


class PodStarted(PodNotice):
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


class Decision(Enum):
    """What a kubelet has decided about a pod."""

    WAIT = "wait"
    """The pod is restarted, but not now."""
    RESTART = "restart"
    STOP = "stop"
    """The pod is not restarted."""
    END = "end"
    """To a troupe within: that above comes to its end, and this one ends first."""


class Verdict(PodNotice):
    """What becomes of the pod, also in words; and in how many seconds, if it is to wait."""

    __slots__ = ("acts_in", "decision", "remedy", "words")

    def __init__(self, pod: PodRecord, decision: Decision, words: str, acts_in: float, remedy: str) -> None:
        super().__init__(pod)
        self.decision = decision
        self.words = words
        self.acts_in = acts_in
        self.remedy = remedy


class PodRecord(Member):
    """One pod. Also what the runtime asks about the end of the pod's own supervisor: the `ChildSupervisor` of that.

    `status` says how far its kubelet is with it: ENDING from the decision that the pod does not come back, STOPPED when
    its supervisor has ended for good, or the troupe that it is. Only the kubelet's thread writes it.
    """

    def __init__(self, pod: Pod, slot: PodSlot, troupe: Assembly) -> None:
        super().__init__(Status.STARTING)
        self.pod = pod
        self.name = pod.name
        self.slot = slot
        self.troupe = troupe
        # How its actors are made, by name, set when the troupe is wired. None for a pod that is a troupe.
        self.factories: dict[str, ActorFactory] = {}
        # The pod's supervisor; the kubelet of one that is a troupe.
        self.ref: ActorRef | None = None
        # The dispatcher of its actors, if they have one of their own.
        self.dispatcher: str | None = None
        self._lock = Lock()
        # What others see of it. Written under the lock.
        self.shown = PodStatus(PodPhase.PENDING)
        # Since when it runs, and its restarts in a row. The kubelet's.
        self.running_since: float | None = None
        self.delays = Delays()
        # Whether its supervisor has ended with it, so that both are started again. The kubelet's.
        self.is_alone = False

    @property
    def is_nested(self) -> bool:
        return not self.factories

    @property
    def is_over(self) -> bool:
        return self.status in (Status.ENDING, Status.STOPPED)

    def enter(self, phase: PodPhase, reason: BaseException | None = None, restarts: int = 0) -> bool:
        """Go on to a phase; False when it is not one that can follow. From any thread."""
        with self._lock:
            if not can_follow(self.shown.phase, phase):
                return False
            shown = self.shown = PodStatus(phase, reason, self.shown.restarts + restarts)
        hooks = self.slot.loop.hooks
        if hooks.pod_changed:
            hooks.emit("pod_changed", self.slot.name, shown)
        return True

    def conclude(self) -> None:
        """Enter the last phase: the pod has ended, unless something holds its thread. From any thread."""
        if self.shown.phase in (PodPhase.PENDING, PodPhase.RUNNING):
            self.enter(PodPhase.TERMINATING)
        if self.shown.phase is PodPhase.TERMINATING and not self.has_actors():
            self.enter(PodPhase.COMPLETED)

    def has_actors(self) -> bool:
        """Whether the pod's supervisor, or the troupe's kubelet, is alive."""
        return self.ref is not None and self.ref.is_alive

    # -- for its kubelet

    def belong_to(self, ref: ActorRef) -> None:
        self.ref = ref
        self.slot.belong_to(ref._cell)
        restart_state_of(ref._cell.record).supervisor = self

    def start(self) -> bool:
        """Have the pod start again: its supervisor, if that has ended, or its actors."""
        self.status = Status.STARTING
        if self.is_alone and self.ref is not None:
            self.is_alone = False
            self.enter(PodPhase.PENDING, restarts=1)
            self.ref._cell.order(start_again)
        else:
            self.tell_supervisor(Decision.RESTART)
        return True

    def tell_supervisor(self, decision: Decision, words: str = "", acts_in: float = 0.0, remedy: str = "") -> None:
        """Tell the pod's supervisor what was decided, unless it has ended."""
        if self.ref is not None and not self.is_alone:
            self.ref._cell.notify(Verdict(self, decision, words, acts_in, remedy))

    def begin_again(self) -> None:
        self.status, self.unsettled, self.is_alone = Status.STARTING, False, False
        self.running_since, self.delays = None, Delays()
        self.slot.revive()
        with self._lock:
            self.shown = PodStatus(PodPhase.PENDING, None, self.shown.restarts + 1)

    # -- told by what the pod is; from any thread

    def tell(self, notice: PodNotice) -> None:
        self.troupe.kubelet._cell.notify(notice)

    def troupe_runs(self) -> None:
        if self.enter(PodPhase.RUNNING):
            self.tell(PodStarted(self))

    def troupe_ends(self, cause: BaseException | None) -> None:
        self.enter(PodPhase.COMPLETED if cause is None else PodPhase.FAILED, cause)
        self.tell(PodEnded(self, NORMAL if cause is None else ExitReason.of(cause)))

    # -- asked by the runtime about the pod's supervisor, on that one's thread

    time_to_stop = None
    on_restart = OnRestart.KEEP

    def wants(self, kind: ExitKind) -> bool:
        """Whether the supervisor is to rest until the kubelet decides: not when it was told to stop."""
        return not self.is_over and kind not in (ExitKind.NORMAL, ExitKind.SHUTDOWN)

    def rested(self, cell: Cell, reason: ExitReason) -> None:
        self.slot.withdraw("its supervisor has failed, and it is being restarted")
        self.tell(PodEnded(self, reason, alone=True))

    def running(self, cell: Cell) -> None:
        pass  # its actors are still to start

    def gone(self, cell: Cell, reason: ExitReason) -> None:
        """The supervisor has ended for good, and the pod with it, unless the whole troupe may be brought up again."""
        if self.troupe.has_ended:
            self.slot.withdraw("its troupe has failed")
        else:
            self.slot.mark_gone(f"it has ended ({reason})", reason.cause)
            self.slot.clear("its pod is gone")
        self.tell(PodEnded(self, reason, alone=True, gone=cell))
