"""A supervisor's record of one child, and the child's way to tell it what has become of it."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Generator
from typing import TYPE_CHECKING

from greenroom._core.scheduler.stepping import Wait
from greenroom.actor.failure.engine import Member, Status
from greenroom.actor.failure.reports import FailureSource
from greenroom.actor.life.restarting import RestartOrder, start_again
from greenroom.actor.records.restartstate import RestartState, restart_state_of
from greenroom.actor.records.states import Stage, State
from greenroom.exits import KILLED, SHUTDOWN, ExitKind, ExitReason
from greenroom.policy.children import ChildSpec
from greenroom.policy.directives import OnRestart
from greenroom.policy.plan import wants_restart
from greenroom.supervision.requests import ChildInfo

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.reply import Reply
    from greenroom.supervision.base import SupervisorBase

__all__ = ["ChildNotice", "ChildRecord", "ChildWakeup"]


class ChildNotice(FailureSource):
    """Tells a supervisor where a child stands now; without a child, that the supervisor itself has something to do."""

    __slots__ = ("reason", "record", "status")

    def __init__(
        self, record: ChildRecord | None = None, status: Status | None = None, reason: ExitReason | None = None
    ) -> None:
        self.record = record
        self.status = status
        # How the child has ended, if it has.
        self.reason = reason

    def __str__(self) -> str:
        return "over its children"


class ChildWakeup(Wait):
    """What a supervisor that is starting waits for: something has happened to a child."""

    __slots__ = ("_cancelled",)

    def __init__(self) -> None:
        self.set_up_alarm(0.0)
        self.waiter = None
        self._cancelled: BaseException | None = None

    def __await__(self) -> Generator[ChildWakeup, None, None]:
        yield self
        if self._cancelled is not None:
            raise self._cancelled

    def cancel(self, msg: object = None) -> bool:
        self._cancelled = CancelledError() if msg is None else CancelledError(msg)
        self.wake_waiter()
        return True


class ChildRecord(Member):
    """One child: its spec, and its ref while there is one. The `ChildSupervisor` of that actor."""

    __slots__ = ("ended", "is_new", "key", "on_request", "ref", "spec", "started", "supervisor", "tries_again")

    def __init__(self, spec: ChildSpec, key: str | int | None, supervisor: SupervisorBase) -> None:
        super().__init__()
        self.spec = spec
        self.key = key
        self.supervisor = supervisor
        self.ref: ActorRef | None = None
        # Whether a start that fails is tried again: not before the actor has been running once.
        self.tries_again = False
        # Whether the child is forgotten if its first start fails, and whether a request stopped it.
        self.is_new = False
        self.on_request = False
        # Who waits for it to be running, or to be gone.
        self.started: list[Reply] = []
        self.ended: list[Reply] = []

    # -- told by the runtime, on the child's own thread

    @property
    def time_to_stop(self) -> float:
        return self.spec.patience

    @property
    def on_restart(self) -> OnRestart:
        return self.spec.mailbox if isinstance(self.spec.mailbox, OnRestart) else OnRestart.KEEP

    def wants(self, kind: ExitKind) -> bool:
        return self.tries_again and wants_restart(self.spec.restart, kind)

    def rested(self, cell: Cell, reason: ExitReason) -> None:
        self.supervisor._child_notice(ChildNotice(self, Status.RESTING, reason))

    def running(self, cell: Cell) -> None:
        self.tries_again = True
        self.is_new = False
        self.supervisor._child_notice(ChildNotice(self, Status.RUNNING))

    def gone(self, cell: Cell, reason: ExitReason) -> None:
        self.supervisor._child_notice(ChildNotice(self, Status.STOPPED, reason))

    # -- asked by its supervisor

    @property
    def actor_ref(self) -> ActorRef:
        """The ref of a child that has an actor, or had one."""
        return self.ref  # type: ignore[return-value]

    @property
    def exit_reason(self) -> ExitReason:
        """How a child ended that has ended."""
        return self.reason  # type: ignore[return-value]

    @property
    def rests(self) -> bool:
        """Whether the child can be started again: it may have ended for good, and the notice is on its way."""
        return self.status is Status.RESTING and self.ref is not None and self.ref.is_alive

    @property
    def restart_state(self) -> RestartState:
        """The runtime's own record of a child that is alive."""
        return restart_state_of(self.actor_ref._cell.record)

    # -- told by the engine

    def start(self) -> bool:
        """Start the actor again, or another one if it is gone; not if it was stopped on request."""
        if self.on_request or self.status not in (Status.RESTING, Status.STOPPED):
            return False
        if self.status is Status.STOPPED:
            self.supervisor._spawn(self)
            self.tries_again = True
        else:
            self.cancel_restart()
            self.unsettled = False
            self.status = Status.STARTING
            self.actor_ref._cell.order(start_again)
        return True

    def leave(self, cause: BaseException | None) -> None:
        cell = self.actor_ref._cell
        cell.loop.host.request(cell, RestartOrder(cause, killed=self.spec.patience <= 0.0))

    def end(self) -> None:
        """Have the actor end for good; if it has, the notice is on its way."""
        if self.actor_ref.is_alive:
            self.restart_state.final = True
            cell = self.actor_ref._cell
            cell.loop.host.request_end(cell, KILLED if self.spec.patience <= 0.0 else SHUTDOWN)

    def entrust(self, ref: ActorRef) -> None:
        self.ref = ref
        self.status = Status.STARTING
        self.tries_again = self.on_request = False
        self.restart_state.supervisor = self

    def info(self) -> ChildInfo:
        if self.ref is None or not self.ref.is_alive:
            return ChildInfo(self.spec.name, None, State.TERMINATED, 0, None, None)
        restart_state = self.restart_state
        due = restart_state.due if self.ref._cell.record.stage == Stage.RESTING else None
        return ChildInfo(
            self.ref.name, self.ref, self.ref.state, restart_state.restarts, restart_state.last_restart, due
        )
