"""A supervisor's record of one child, and the child's way to tell it what has become of it."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING

from greenroom._core.scheduler.stepping import Wait
from greenroom._core.timing.timers import Alarm
from greenroom.actor.failure.reports import FailureSource
from greenroom.actor.messaging.timers import set_alarm
from greenroom.actor.records.restartstate import RestartState, restart_state_of
from greenroom.actor.records.states import State
from greenroom.exits import ExitKind, ExitReason
from greenroom.policy.children import ChildSpec
from greenroom.policy.directives import OnRestart
from greenroom.policy.plan import wants_restart
from greenroom.supervision.requests import ChildCounts, ChildInfo

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.reply import Reply

__all__ = [
    "ENDING",
    "LEAVING",
    "RESTING",
    "RUNNING",
    "STARTING",
    "STOPPED",
    "ChildNotice",
    "ChildRecord",
    "ChildWakeup",
    "Gone",
    "RestartDue",
    "RestartDueAlarm",
    "Rested",
    "Running",
    "Wake",
    "count",
]

# Where a child stands, as its supervisor knows it.
STOPPED = "stopped"
STARTING = "starting"
RUNNING = "running"
LEAVING = "leaving"
"""It has been told to come to rest."""
RESTING = "resting"
"""It has ended, and is to be started again."""
ENDING = "ending"
"""It has been told to end for good."""


class ChildNotice(FailureSource):
    """A notice to the supervisor itself."""

    __slots__ = ("record",)

    def __init__(self, record: ChildRecord | None) -> None:
        # Of whom it is, if it is of one child.
        self.record = record

    def __str__(self) -> str:
        return "over its children"


class Running(ChildNotice):
    """The child is running."""

    __slots__ = ()


class Rested(ChildNotice):
    """The child has ended, and waits."""

    __slots__ = ("reason",)

    def __init__(self, record: ChildRecord, reason: ExitReason) -> None:
        self.record = record
        self.reason = reason


class Gone(Rested):
    """The child has ended for good."""

    __slots__ = ()


class RestartDue(ChildNotice):
    """It is time for a restart: of the child or, without one, of those that `owner` restarts together."""

    __slots__ = ("owner",)

    def __init__(self, record: ChildRecord | None, owner: object) -> None:
        self.record = record
        self.owner = owner


class Wake(ChildNotice):
    """`owner` has something to do."""

    __slots__ = ("owner",)

    def __init__(self, owner: object) -> None:
        self.record = None
        self.owner = owner


class RestartDueAlarm(Alarm):
    """Sends a notice that a restart is due: a supervisor whose mailbox is full must hear of it all the same."""

    __slots__ = ("_cell", "notice")

    def __init__(self, cell: Cell, deadline: float, notice: object) -> None:
        self._cell = cell
        self.notice = notice
        set_alarm(cell.loop, self, deadline)

    def ring(self, admission: object) -> None:
        """The time has come."""
        self._cell.notify(self.notice)

    def cancel(self) -> None:
        """Send nothing."""
        self.disarm(self._cell.loop.timers)


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
        """Wait no longer."""
        self._cancelled = CancelledError() if msg is None else CancelledError(msg)
        self.wake_waiter()
        return True


class ChildRecord:
    """One child: its spec, its ref while there is one, and its status. The `ChildSupervisor` of that actor."""

    __slots__ = (
        "alarm",
        "ended",
        "key",
        "new",
        "notify",
        "on_request",
        "reason",
        "ref",
        "spec",
        "started",
        "status",
        "tries_again",
        "unsettled",
    )

    def __init__(self, spec: ChildSpec, key: str | int | None, notify: Callable[[ChildNotice], None]) -> None:
        self.spec = spec
        self.key = key
        self.notify = notify
        self.ref: ActorRef | None = None
        self.status = STOPPED
        # How it ended, and whether something is still to be done about that.
        self.reason: ExitReason | None = None
        self.unsettled = False
        # Whether a start that fails is tried again: not before the actor has been running once.
        self.tries_again = False
        # Whether it is to be forgotten if its first start fails, and whether it was stopped because somebody said so.
        self.new = False
        self.on_request = False
        self.alarm: RestartDueAlarm | None = None
        # Who waits for it to be running, or to be gone.
        self.started: list[Reply] = []
        self.ended: list[Reply] = []

    # -- told by the runtime, on the child's own thread

    def wants(self, kind: ExitKind) -> bool:
        """Whether it is to come back after such an end."""
        return self.tries_again and wants_restart(self.spec.restart, kind)

    def rested(self, cell: Cell, reason: ExitReason) -> None:
        """It has ended, and waits."""
        self.notify(Rested(self, reason))

    def running(self, cell: Cell) -> None:
        """It is running."""
        self.tries_again = True
        self.new = False
        self.notify(Running(self))

    def gone(self, cell: Cell, reason: ExitReason) -> None:
        """It has ended for good."""
        self.notify(Gone(self, reason))

    # -- asked by its supervisor

    @property
    def actor_ref(self) -> ActorRef:
        """Its ref; it must have had an actor."""
        return self.ref  # type: ignore[return-value]

    @property
    def exit_reason(self) -> ExitReason:
        """How it ended; it must have."""
        return self.reason  # type: ignore[return-value]

    @property
    def rests(self) -> bool:
        """Whether it can be started again; it may have ended for good since it was heard of last."""
        return self.status == RESTING and self.ref is not None and self.ref.is_alive

    @property
    def restart_state(self) -> RestartState:
        """The runtime's own record of it; it must be alive."""
        return restart_state_of(self.actor_ref._cell.record)

    def entrust(self, ref: ActorRef) -> None:
        """Look after the new actor `ref`."""
        self.ref = ref
        self.status = STARTING
        self.tries_again = self.on_request = False
        restart_state = self.restart_state
        restart_state.supervisor = self
        restart_state.patience = self.spec.patience
        if isinstance(self.spec.mailbox, OnRestart):
            restart_state.mailbox = self.spec.mailbox

    def forget_due(self) -> None:
        """It is not restarted by itself any more."""
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None

    def info(self) -> ChildInfo:
        """What others are told of it."""
        if self.ref is None or not self.ref.is_alive:
            return ChildInfo(self.spec.name, None, State.TERMINATED, 0, None, None)
        restart_state = self.restart_state
        due = restart_state.due if restart_state.resting else None
        return ChildInfo(
            self.ref.name, self.ref, self.ref.state, restart_state.restarts, restart_state.last_restart, due
        )


def count(records: Iterable[ChildRecord], supervisor: type) -> ChildCounts:
    """How many there are; those whose factory is a `supervisor` class are supervisors."""
    statuses = [record.status for record in records]
    kinds = [
        isinstance(record.spec.factory, type) and issubclass(record.spec.factory, supervisor) for record in records
    ]
    return ChildCounts(
        specs=len(statuses),
        active=statuses.count(RUNNING),
        restarting=statuses.count(RESTING) + statuses.count(LEAVING),
        supervisors=kinds.count(True),
        workers=kinds.count(False),
    )
