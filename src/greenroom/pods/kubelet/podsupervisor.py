"""The supervisor of one pod's actors: they start, rest and start again together, when the kubelet says so.

It lives on the pod's own loop, and the actors are its children. When one of them has ended it takes the pod off the
registry, lets the others come to rest, and asks the kubelet, which knows the policy and counts restarts. So there is
one place that decides, and it is not held up by whatever a pod does with its thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.messaging.drain import Drain, clear
from greenroom.errors import SystemStopped
from greenroom.exits import NORMAL, ExitReason
from greenroom.pods.kubelet.notices import Decision, PodEnded, PodStarted, Verdict
from greenroom.pods.kubelet.parking import Parking, parks
from greenroom.pods.manifest.phases import PodPhase
from greenroom.policy.children import ChildSpec, SupervisorSpec
from greenroom.policy.directives import OnRestart, Scope
from greenroom.policy.plan import wants_restart
from greenroom.supervision.base import Operation
from greenroom.supervision.childrecord import RESTING, STARTING, STOPPED, ChildRecord, Wake
from greenroom.supervision.supervisor import Supervisor
from greenroom.system.ending.report import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from greenroom._core.mailbox.cell import Cell
    from greenroom.pods.kubelet.podrecord import PodRecord

__all__ = ["PodSupervisor"]

CLEARED = "cleared by a restart"


class PodSupervisor(Supervisor):
    """Starts the actors of one pod, and restarts them together."""

    # Nobody adds children to a pod, or takes one away: it is declared.
    REQUESTS: ClassVar[tuple[type, ...]] = Supervisor.REQUESTS[2:4]

    def __init__(self, pod: PodRecord) -> None:
        children = [
            ChildSpec(
                name,
                factory,
                restart=pod.pod.restart.restart,
                shutdown=pod.stop_timeout,
                mailbox=pod.pod.on_restart,
                dispatcher=pod.dispatcher,
            )
            for name, factory in pod.factories.items()
        ]
        super().__init__(SupervisorSpec(tuple(children), Scope.ONE_FOR_ALL, intensity=None))
        self._pod = pod
        self._parking: Parking | None = None
        # What the kubelet has said about the end that it was told of last; and of which actor that was, if of one.
        self._decision: Decision | None = None
        self._ended: ChildRecord | None = None

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """What observers see of the pod."""
        status = self._pod.status
        return {
            "pod": self._pod.name,
            "phase": status.phase.value,
            "restarts": status.restarts,
            "reason": None if status.reason is None else repr(status.reason),
            "thread": self._pod.pod.thread.value,
            "waiting": self._pod.slot.inbox.queued(),
        }

    # -- its own life

    async def pre_start(self) -> None:
        """Begin to start the actors. The kubelet decides what happens if one cannot."""
        self.ctx.ensure_extras().orderly = True
        for spec in self._spec.children:
            self._records[spec.name] = ChildRecord(spec, spec.name, self._child_notice)
        self._operation = self._start_all(None)
        self.ctx.cell.notify(Wake(self))

    def pre_stop(self) -> None:
        """It was told to stop: nothing more is sent to the actors."""
        if not self._pod.is_over:
            self._pod.enter(PodPhase.TERMINATING)

    def post_stop(self) -> None:
        """Nothing is to come any more."""
        super().post_stop()
        self._park(())
        if self._pod.status.phase is PodPhase.TERMINATING:
            self._pod.enter(PodPhase.COMPLETED)

    def receive(self, message: object) -> object:
        """A notice about an actor, what the kubelet has decided, or a request."""
        if isinstance(message, Verdict):
            if message.words and self._ended is not None:
                is_last = message.decision is Decision.LET_GO
                self._report(self._ended, message.words, message.acts_in, always=is_last, remedy=message.remedy)
            if message.decision is not Decision.WAIT:
                self._decision = message.decision
                self._go_on()
            return None
        return super().receive(message)

    def _spawn(self, record: ChildRecord) -> None:
        super()._spawn(record)
        factory = self._pod.factories[record.spec.name]
        factory.stand_for(record.actor_ref)
        # What waits for it is handled when its pod mates have been made, too.
        record.restart_state.is_held_back = True

    # -- operations

    def _settle(self, record: ChildRecord) -> Operation | None:
        """An actor has ended: on that of the last one, or one that is to come back, the pod has."""
        reason = record.exit_reason
        if not reason.abnormal and not wants_restart(record.spec.restart, reason.kind):
            if any(one.status != STOPPED for one in self._records.values()):
                return None  # the others go on
            return self._end_pod(NORMAL, None)
        return self._end_pod(reason, record)

    def _end_pod(self, reason: ExitReason, record: ChildRecord | None) -> Operation:
        """The pod has ended: let its actors rest, and do what the kubelet says."""
        pod = self._pod
        failed = reason.abnormal
        self._park(())
        pod.slot.withdraw(f"it has {'failed' if failed else 'ended'} ({reason}), and is being restarted")
        pod.enter(PodPhase.FAILED if failed else PodPhase.COMPLETED, reason.cause)
        self._decision, self._ended = None, record
        pod.tell(PodEnded(pod, reason))
        for_good = record is not None and record.status == STOPPED
        yield from self._bring_down(self._down_order(record), reason.cause, for_good)
        while self._decision is None:
            yield
        if self._decision is Decision.RESTART:
            if pod.pod.on_restart is OnRestart.CLEAR:
                self._clear()
            yield from self._start_all(reason)
        else:
            yield from self._let_go(record)

    def _clear(self) -> None:
        """Make dead letters of all that waits: in the rings, and of what they had brought to the mailboxes since."""
        self._pod.slot.clear(CLEARED)
        for record in self._records.values():
            if record.ref is not None and record.rests:
                clear(record.ref._cell, Drain.DEAD_LETTER, CLEARED)

    def _start_all(self, ended: ExitReason | None) -> Operation:
        """Start all actors, one after the other; then the pod runs."""
        pod = self._pod
        if ended is not None:
            pod.enter(PodPhase.PENDING, restarts=1)
        for record in self._records.values():
            if record.status == RESTING:
                self._start_again(record)
            elif record.status == STOPPED:
                try:
                    self._spawn_again(record)
                except SystemStopped:
                    return  # its own end comes next
            while record.status == STARTING:
                yield
            if record.status in (RESTING, STOPPED) and record.unsettled:
                return  # it could not start: what is done about that comes next
        if any(record.unsettled for record in self._records.values()):
            return  # one of them has ended again while the others started
        for record in self._records.values():
            if record.ref is not None and record.ref.is_alive:
                record.ref._cell.release()
        pod.slot.publish({str(one.key): one.ref._cell for one in self._records.values() if one.ref is not None})
        self._park([record.ref._cell for record in self._records.values() if record.ref is not None])
        pod.enter(PodPhase.RUNNING)
        pod.tell(PodStarted(pod))

    def _park(self, cells: Iterable[Cell]) -> None:
        """Have those of these called that park, and nobody else any more."""
        if self._parking is not None:
            self._parking.end()
        for cell in cells:
            if parks(cell.subject) and self._pod.dispatcher is None:
                if self._parking is None:
                    self._parking = Parking(self.ctx.cell.loop.host.poller, self._is_ending)
                self._parking.add(cell)

    def _is_ending(self) -> bool:
        phase: str = self.ctx.system.phase
        return phase != Phase.RUNNING

    def _let_go(self, record: ChildRecord | None) -> Operation:
        """The pod does not come back."""
        pod = self._pod
        pod.is_over = True
        yield from self._bring_down(self._down_order(record), None, for_good=True)
        pod.slot.clear("its pod is gone")
        cell = self.ctx.cell
        cell.loop.host.request_end(cell, NORMAL)
