"""A supervisor's record of one child, and the child's way to tell it what has become of it."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from greenroom._core.scheduler.stepping import Wait
from greenroom._core.timing.timers import Alarm
from greenroom.actor.failure.reports import Doing
from greenroom.actor.records.restartstate import Standing, standing_of
from greenroom.actor.records.states import State
from greenroom.actor.messaging.timers import set_alarm
from greenroom.exits import ExitKind, ExitReason
from greenroom.policy.children import ChildSpec
from greenroom.policy.directives import OnRestart
from greenroom.policy.plan import wants_restart
from greenroom.supervision.requests import ChildCounts, ChildInfo

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.messaging.ask import Reply
    from greenroom.actor.messaging.ref import ActorRef

__all__ = [
    "ENDING",
    "LEAVING",
    "RESTING",
    "RUNNING",
    "STARTING",
    "STOPPED",
    "Alert",
    "Due",
    "DueAlarm",
    "Gone",
    "Nudge",
    "Rested",
    "Running",
    "Wake",
    "Ward",
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


class Alert(Doing):
    """A notice to the supervisor itself."""

    __slots__ = ("ward",)

    def __init__(self, ward: Any) -> None:
        self.ward = ward

    def __str__(self) -> str:
        return "over its children"


class Running(Alert):
    """The child is running."""

    __slots__ = ()


class Rested(Alert):
    """The child has ended, and waits."""

    __slots__ = ("reason",)

    def __init__(self, ward: Any, reason: ExitReason) -> None:
        self.ward = ward
        self.reason = reason


class Gone(Rested):
    """The child has ended for good."""

    __slots__ = ()


class Due(Alert):
    """It is time for a restart: of the child or, without one, of those that `owner` restarts together."""

    __slots__ = ("owner",)

    def __init__(self, ward: Any, owner: object) -> None:
        self.ward = ward
        self.owner = owner


class Wake(Alert):
    """`owner` has something to do."""

    __slots__ = ("owner",)

    def __init__(self, owner: object) -> None:
        self.ward = None
        self.owner = owner


class DueAlarm(Alarm):
    """Sends a `Due`. A notice: a supervisor whose mailbox is full must hear of it all the same."""

    __slots__ = ("_cell", "alert")

    def __init__(self, cell: Cell, deadline: float, alert: Due) -> None:
        self._cell = cell
        self.alert = alert
        set_alarm(cell.loop, self, deadline)

    def ring(self, door: object) -> None:
        """The time has come."""
        self._cell.notify(self.alert)

    def cancel(self) -> None:
        """Send nothing."""
        self.disarm(self._cell.loop.timers)


class Nudge(Wait):
    """What a supervisor that is starting waits for: something has happened to a child."""

    __slots__ = ("_cancelled",)

    def __init__(self) -> None:
        self.set_up_alarm(0.0)
        self.waiter = None
        self._cancelled: BaseException | None = None

    def __await__(self) -> Generator[Any, None, None]:
        yield self
        if self._cancelled is not None:
            raise self._cancelled

    def cancel(self, msg: object = None) -> bool:
        """Wait no longer."""
        self._cancelled = CancelledError() if msg is None else CancelledError(msg)
        self.wake_waiter()
        return True


class Ward:
    """One child: its spec, its ref while there is one, and where it stands. The keeper of that actor."""

    __slots__ = (
        "alarm",
        "ended",
        "hear",
        "key",
        "new",
        "on_request",
        "reason",
        "ref",
        "spec",
        "started",
        "status",
        "tries_again",
        "unsettled",
    )

    def __init__(self, spec: ChildSpec, key: Any, hear: Callable[[Alert], None]) -> None:
        self.spec = spec
        self.key = key
        self.hear = hear
        self.ref: ActorRef[Any, Any] | None = None
        self.status = STOPPED
        # How it ended, and whether something is still to be done about that.
        self.reason: ExitReason | None = None
        self.unsettled = False
        # Whether a start that fails is tried again: not before the actor has been running once.
        self.tries_again = False
        # Whether it is to be forgotten if its first start fails, and whether it was stopped because somebody said so.
        self.new = False
        self.on_request = False
        self.alarm: DueAlarm | None = None
        # Who waits for it to be running, or to be gone.
        self.started: list[Reply] = []
        self.ended: list[Reply] = []

    # -- told by the runtime, on the child's own thread

    def wants(self, kind: ExitKind) -> bool:
        """Whether it is to come back after such an end."""
        return self.tries_again and wants_restart(self.spec.restart, kind)

    def rested(self, cell: Cell, reason: ExitReason) -> None:
        """It has ended, and waits."""
        self.hear(Rested(self, reason))

    def running(self, cell: Cell) -> None:
        """It is running."""
        self.tries_again = True
        self.new = False
        self.hear(Running(self))

    def gone(self, cell: Cell, reason: ExitReason) -> None:
        """It has ended for good."""
        self.hear(Gone(self, reason))

    # -- asked by its supervisor

    @property
    def rests(self) -> bool:
        """Whether it can be started again; it may have ended for good since it was heard of last."""
        return self.status == RESTING and self.ref is not None and self.ref.is_alive

    @property
    def standing(self) -> Standing:
        """The runtime's own record of it; it must be alive."""
        ref: Any = self.ref
        return standing_of(ref._cell.body)

    def entrust(self, ref: Any) -> None:
        """Look after the new actor `ref`."""
        self.ref = ref
        self.status = STARTING
        self.tries_again = self.on_request = False
        standing = self.standing
        standing.keeper = self
        standing.patience = self.spec.patience
        if isinstance(self.spec.mailbox, OnRestart):
            standing.mailbox = self.spec.mailbox

    def forget_due(self) -> None:
        """It is not restarted by itself any more."""
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None

    def info(self) -> ChildInfo:
        """What others are told of it."""
        if self.ref is None or not self.ref.is_alive:
            return ChildInfo(self.spec.name, None, State.TERMINATED, 0, None, None)
        standing = self.standing
        due = standing.due if standing.resting else None
        return ChildInfo(self.ref.name, self.ref, self.ref.state, standing.restarts, standing.last_restart, due)


def count(wards: Iterable[Ward], supervisor: type) -> ChildCounts:
    """How many there are; those whose factory is a `supervisor` class are supervisors."""
    statuses = [ward.status for ward in wards]
    kinds = [isinstance(ward.spec.factory, type) and issubclass(ward.spec.factory, supervisor) for ward in wards]
    return ChildCounts(
        specs=len(statuses),
        active=statuses.count(RUNNING),
        restarting=statuses.count(RESTING) + statuses.count(LEAVING),
        supervisors=kinds.count(True),
        workers=kinds.count(False),
    )
