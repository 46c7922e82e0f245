"""A kubelet's record of one pod: what was declared, where it is, and what phase it is in."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from greenroom.actor.records.restartstate import restart_state_of
from greenroom.exits import NORMAL, ExitKind, ExitReason
from greenroom.pods.kubelet.notices import PodEnded, PodNotice, PodStarted
from greenroom.pods.manifest.phases import PodPhase, PodStatus, can_follow
from greenroom.policy.backoff import Streak

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.observerhooks import ObserverHooks
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.pods.manifest.pod import Pod
    from greenroom.pods.service.registry import PodSlot

__all__ = ["PodActorFactory", "PodRecord"]


class PodActorFactory(Protocol):
    """What makes an actor of a pod."""

    def __call__(self) -> Any:
        """Make it afresh."""
        ...

    def stand_for(self, ref: ActorRef) -> None:
        """It is made for this one."""
        ...


class PodRecord:
    """One pod. It is also what the runtime asks about the end of the pod's own supervisor."""

    def __init__(self, pod: Pod, slot: PodSlot, hooks: ObserverHooks, stop_timeout: float) -> None:
        self.pod = pod
        self.name = pod.name
        self.slot = slot
        # Seconds that each of its actors has to stop.
        self.stop_timeout = stop_timeout
        self._hooks = hooks
        # How its actors are made, by name; set when the troupe is wired.
        self.factories: dict[str, PodActorFactory] = {}
        # The cell of the kubelet, and the ref of the pod's supervisor.
        self.kubelet: Cell | None = None
        self.ref: ActorRef | None = None
        # The dispatcher of its actors, if they have one of their own.
        self.dispatcher: str | None = None
        self._lock = Lock()
        # Written under the lock.
        self.status = PodStatus(PodPhase.PENDING)
        # Since when it runs, and its restarts in a row. The kubelet's.
        self.running_since: float | None = None
        self.streak = Streak()
        # Whether it will not come back; and whether its supervisor has ended with it.
        self.is_over = False
        self.needs_supervisor = False
        # Whether its supervisor has ended for good, as far as the kubelet knows.
        self.has_gone = False
        # Whether its whole troupe has failed, and may be brought up again.
        self.is_revived = False

    @property
    def is_nested(self) -> bool:
        """Whether the pod is a troupe."""
        return not self.factories

    def belong_to_troupe(self, kubelet: ActorRef) -> None:
        """The pod is a troupe, with this kubelet."""
        self.ref = kubelet

    def troupe_runs(self) -> None:
        """All pods of the troupe run."""
        if self.enter(PodPhase.RUNNING):
            self.tell(PodStarted(self))

    def begin_again(self) -> None:
        """Its whole troupe is brought up again."""
        self.is_over = self.needs_supervisor = self.is_revived = False
        self.running_since, self.streak = None, Streak()
        self.slot.revive()
        with self._lock:
            self.status = PodStatus(PodPhase.PENDING, None, self.status.restarts + 1)

    def troupe_ends(self, cause: BaseException | None, pod: str | None) -> None:
        """The troupe has come to its end: told by its kubelet, when its pods have ended."""
        self.enter(PodPhase.COMPLETED if cause is None else PodPhase.FAILED, cause)
        self.tell(PodEnded(self, NORMAL if cause is None else ExitReason.of(cause)))

    def belong_to(self, ref: ActorRef) -> None:
        """This is the pod's supervisor."""
        self.has_gone = False
        self.ref = ref
        self.slot.belong_to(ref._cell)
        restart_state_of(ref._cell.record).supervisor = self

    def enter(self, phase: PodPhase, reason: BaseException | None = None, restarts: int = 0) -> bool:
        """Let it be in a phase from now on; False when it is not one that can follow. From any thread."""
        with self._lock:
            if not can_follow(self.status.phase, phase):
                return False
            status = self.status = PodStatus(phase, reason, self.status.restarts + restarts)
        if self._hooks.pod_changed:
            self._hooks.emit("pod_changed", self.slot.name, status)
        return True

    def conclude(self) -> None:
        """Nothing more becomes of it: it has ended, unless something holds its thread. From any thread."""
        if self.status.phase in (PodPhase.PENDING, PodPhase.RUNNING):
            self.enter(PodPhase.TERMINATING)
        if self.status.phase is PodPhase.TERMINATING and (self.ref is None or not self.ref.is_alive):
            self.enter(PodPhase.COMPLETED)

    def tell(self, notice: PodNotice) -> None:
        """Tell the kubelet. From any thread."""
        if self.kubelet is not None:
            self.kubelet.notify(notice)

    # -- asked by the runtime about the pod's supervisor, on that one's thread

    def wants(self, kind: ExitKind) -> bool:
        """Whether the supervisor is to rest until somebody decides: not when it was told to stop."""
        return not self.is_over and kind not in (ExitKind.NORMAL, ExitKind.SHUTDOWN)

    def rested(self, cell: Cell, reason: ExitReason) -> None:
        """It has ended, and waits."""
        self.slot.withdraw("its supervisor has failed, and it is being restarted")
        self.tell(PodEnded(self, reason, alone=True))

    def running(self, cell: Cell) -> None:
        """It is running."""

    def gone(self, cell: Cell, reason: ExitReason) -> None:
        """It has ended for good, and the pod with it, unless the whole troupe is to be restarted."""
        if self.is_revived:
            self.slot.withdraw("its troupe has failed")
            self.tell(PodEnded(self, reason, alone=True, gone=cell))
            return
        self.slot.let_go(f"it has ended ({reason})", reason.cause)
        self.slot.clear("its pod is gone")
        self.tell(PodEnded(self, reason, alone=True, gone=cell))
