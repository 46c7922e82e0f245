"""The supervisor of one pod's actors: they start, rest and start again together, when the kubelet says so.

It lives on the pod's own loop, and the actors are its children. When one of them has ended it takes the pod off the
registry, lets the others come to rest, and asks the kubelet, which knows the policy and counts restarts. So there is
one place that decides, and it is not held up by whatever a pod does with its thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.failure.engine import Operation, Status
from greenroom.actor.messaging.drain import Drain, clear
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import Stage
from greenroom.errors import SystemStopped
from greenroom.exits import NORMAL, ExitReason
from greenroom.pods.kubelet.parking import Parking, parks
from greenroom.pods.kubelet.podrecord import Decision, PodEnded, PodPhase, PodStarted, Verdict
from greenroom.policy.children import ChildSpec, SupervisorSpec
from greenroom.policy.directives import OnRestart, Scope
from greenroom.policy.plan import wants_restart
from greenroom.supervision.base import ChildNotice, ChildRecord
from greenroom.supervision.requests import CountChildren, WhichChildren
from greenroom.supervision.supervisor import Supervisor
from greenroom.system.ending.report import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from greenroom._core.mailbox.cell import Cell
    from greenroom.pods.kubelet.podrecord import PodRecord

CLEARED = "cleared by a restart"


class PodSupervisor(Supervisor):
    """Starts the actors of one pod, and restarts them together."""

    # No child is added to a pod, or taken away: its actors are declared.
    REQUESTS: ClassVar[tuple[type, ...]] = (WhichChildren, CountChildren)

    def __init__(self, pod: PodRecord) -> None:
        stop_timeout = pod.troupe.system.config.stop_timeout
        children = [
            ChildSpec(
                name,
                factory,
                restart=pod.pod.restart.restart,
                shutdown=stop_timeout,
                mailbox=pod.pod.on_restart,
                dispatcher=pod.dispatcher,
            )
            for name, factory in pod.factories.items()
        ]
        super().__init__(SupervisorSpec(tuple(children), Scope.ONE_FOR_ALL, intensity=None))
        self._pod = pod
        self._parkings: list[Parking] = []
        # Those of its actors, by name; also of one that has ended, until there is another.
        self._cells: dict[str, Cell] = {}
        # What the kubelet has said about the end that it was told of last; and of which actor that was, if of one.
        self._decision: Decision | None = None
        self._ended: ChildRecord | None = None

    def inspect(self, *items: str) -> Mapping[str, Any]:
        shown = self._pod.shown
        return {
            "pod": self._pod.name,
            "phase": shown.phase.value,
            "restarts": shown.restarts,
            "reason": None if shown.reason is None else repr(shown.reason),
            "thread": self._pod.pod.thread.value,
            "waiting": self._pod.slot.inbox.queued(),
        }

    # -- its own life

    async def pre_start(self) -> None:
        """Begin to start the actors. The kubelet decides what happens if one cannot."""
        self.ctx.ensure_extras().orderly = True
        for spec in self._spec.children:
            self._records[spec.name] = ChildRecord(spec, spec.name, self)
        self._engine.operation = self._start_all(None)
        self.ctx.cell.notify(ChildNotice())

    def pre_stop(self) -> None:
        if not self._pod.is_over:
            self._pod.enter(PodPhase.TERMINATING)

    def post_stop(self) -> None:
        super().post_stop()
        self._park(())
        if self._pod.shown.phase is PodPhase.TERMINATING:
            self._pod.enter(PodPhase.COMPLETED)

    def receive(self, message: object) -> object:
        if isinstance(message, Verdict):
            if message.words and self._ended is not None:
                is_last = message.decision is Decision.STOP
                self._report(self._ended, message.words, message.acts_in, always=is_last, remedy=message.remedy)
            if message.decision is not Decision.WAIT:
                self._decision = message.decision
                self._go_on()
            return None
        return super().receive(message)

    def _child_notice(self, notice: ChildNotice) -> None:
        super()._child_notice(notice)
        if notice.status is Status.RUNNING and self._pod.shown.phase is PodPhase.RUNNING:
            self._release()  # it was restarted by itself

    def _spawn(self, record: ChildRecord) -> None:
        super()._spawn(record)
        self._cells[record.spec.name] = record.actor_ref._cell
        factory = self._pod.factories[record.spec.name]
        factory.send_as(record.actor_ref)
        # What waits for it is handled when its pod mates have been made, too.
        record.restart_state.released_by_supervisor = True

    # -- operations

    def _decide(self, record: ChildRecord) -> Operation | None:
        """The pod ends with the last of its actors, or with one that is to come back."""
        if _ends_pod(record):
            return self._end_pod(record.exit_reason, record)
        if any(one.status is not Status.STOPPED for one in self._records.values()):
            return None  # the others go on
        return self._end_pod(NORMAL, None)

    def _end_pod(self, reason: ExitReason, record: ChildRecord | None) -> Operation:
        """Have the actors rest, and do what the kubelet says."""
        pod = self._pod
        failed = reason.abnormal
        self._park(())
        pod.slot.withdraw(f"it has {'failed' if failed else 'ended'} ({reason}), and is being restarted")
        pod.enter(PodPhase.FAILED if failed else PodPhase.COMPLETED, reason.cause)
        self._decision, self._ended = None, record
        pod.tell(PodEnded(pod, reason))
        for_good = record is not None and record.status is Status.STOPPED
        yield from self._engine.bring_down(self._down_order(record), reason.cause, for_good)
        while self._decision is None:
            yield
        if self._decision is Decision.RESTART:
            if pod.pod.on_restart is OnRestart.CLEAR:
                self._clear()
            yield from self._start_all(reason)
        else:
            yield from self._end_all(record)

    def _clear(self) -> None:
        """Make dead letters of all that waits, in the rings and in the mailboxes."""
        self._pod.slot.clear(CLEARED)
        for record in self._records.values():
            if record.ref is not None and record.rests:
                clear(record.ref._cell, Drain.DEAD_LETTER, CLEARED)

    def _start_all(self, ended: ExitReason | None) -> Operation:
        pod = self._pod
        if ended is not None:
            pod.enter(PodPhase.PENDING, restarts=1)
        for record in self._records.values():
            try:
                record.start()
            except SystemStopped:
                return  # its own end comes next
            while record.status is Status.STARTING:
                yield
            if record.unsettled and _ends_pod(record):
                return  # it could not start: what is done about that comes next
        if any(record.unsettled and _ends_pod(record) for record in self._records.values()):
            return  # one of them has ended again while the others started
        pod.slot.publish(self._cells)
        pod.enter(PodPhase.RUNNING)
        self._release()
        pod.tell(PodStarted(pod))

    def _release(self) -> None:
        """Release the mailboxes of the actors that run; the notice of an end may be on its way."""
        running = [cell for cell in self._cells.values() if _runs(cell)]
        for cell in running:
            cell.release()
        self._park(running)

    def _park(self, cells: Iterable[Cell]) -> None:
        """Have `park` called of these actors, if they have one, and of no others any more."""
        for parking in self._parkings:
            parking.end()
        parking_here = self._pod.dispatcher is None
        self._parkings = [Parking(cell, self._is_ending) for cell in cells if parking_here and parks(cell.subject)]

    def _is_ending(self) -> bool:
        phase: str = self.ctx.system.phase
        return phase != Phase.RUNNING

    def _end_all(self, record: ChildRecord | None) -> Operation:
        yield from self._engine.bring_down(self._down_order(record), None, for_good=True)
        self._pod.slot.clear("its pod is gone")
        cell = self.ctx.cell
        cell.loop.host.request_end(cell, NORMAL)


def _ends_pod(record: ChildRecord) -> bool:
    """Whether the pod ends with this actor, which has ended: the others go on without one that is done."""
    reason = record.exit_reason
    return reason.abnormal or wants_restart(record.spec.restart, reason.kind)


def _runs(cell: Cell) -> bool:
    """Whether an actor runs, and is not on its way to its end."""
    record = cell.record
    return isinstance(record, ActorRecord) and record.stage == Stage.RUNNING
