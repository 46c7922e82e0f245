"""The failures and restarts of an actor: how many there were, and what is to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from greenroom.actor.records.states import Stage
from greenroom.policy.backoff import Delays, elapsed
from greenroom.runtimelog import LogLimit

if TYPE_CHECKING:
    from types import TracebackType

    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.timing.timers import ScheduledCall
    from greenroom.actor.failure.decision import FailOrder
    from greenroom.actor.failure.siblings import Sibling
    from greenroom.actor.records.record import ActorRecord
    from greenroom.exits import ExitKind, ExitReason
    from greenroom.policy.directives import OnRestart
    from greenroom.policy.limits import Window

RESTING = int(Stage.RESTING)


class ChildSupervisor(Protocol):
    """What decides about an actor instead of its `Supervision`: a supervisor's record of a child, a pod's of its
    supervisor. Called on the actor's own thread, in the middle of things: what is to be done is done later.
    """

    @property
    def time_to_stop(self) -> float | None:
        """Seconds the actor may take to stop; inf for no limit, None for that of its settings."""
        ...

    @property
    def on_restart(self) -> OnRestart:
        """What becomes of the actor's queue in a restart."""
        ...

    def wants(self, kind: ExitKind) -> bool:
        """Whether the actor is to rest after such an end, and be started again."""
        ...

    def rested(self, cell: Cell, reason: ExitReason) -> None:
        """The actor has ended, and waits to be started again, or to be ended for good."""
        ...

    def running(self, cell: Cell) -> None:
        """The actor is running, for the first time or again."""
        ...

    def gone(self, cell: Cell, reason: ExitReason) -> None:
        """The actor has ended for good."""
        ...


class Failure(NamedTuple):
    """One failure of an actor, as it is reported."""

    cause: BaseException
    activity: str
    """What the actor did, in words: `on Deposit`, `while it started`."""
    message_type: str | None
    handling_time: float
    incarnation: int
    was_running: bool
    is_told: bool
    """Whether it is another actor's failure, which that one has reported."""
    traceback: TracebackType | None
    """As it was then: the cause's own grows while the exception is raised again where an answer is awaited."""


class RestartState:
    """How failures and restarts of an actor stand; made on the first one, or for a supervisor's child."""

    __slots__ = (
        "alarm",
        "at_once",
        "bad_arguments",
        "cause",
        "delays",
        "due",
        "escalation",
        "failure",
        "final",
        "incarnation",
        "kept",
        "last_failure",
        "last_restart",
        "log",
        "reason",
        "released_by_supervisor",
        "reported",
        "restarts",
        "running_since",
        "sibling",
        "spawned_at",
        "supervisor",
        "was_escalated",
        "window",
    )

    def __init__(self) -> None:
        self.supervisor: ChildSupervisor | None = None
        # Whether its supervisor releases it after a start, when the others of its pod are there too. It is restarted as
        # one with them, so its queue stays through any end.
        self.released_by_supervisor = False
        # Whether its next end is for good, whatever its supervisor would want.
        self.final = False
        self.incarnation = 1
        self.restarts = 0
        self.last_restart: float | None = None
        # Since when the present incarnation runs; None for the first one.
        self.running_since: float | None = None
        self.window: Window | None = None
        self.delays = Delays()
        # What its parent was told when it escalated.
        self.escalation: FailOrder | None = None
        # Whether it had escalated when its parent was resumed: what it escalates next may be the same again.
        self.was_escalated = False
        # Why it is being restarted, how its last incarnation ended, whether a user asked for it, and when it is due.
        self.cause: BaseException | None = None
        self.reason: ExitReason | None = None
        self.at_once = False
        self.due: float | None = None
        self.alarm: ScheduledCall | None = None
        # What it is among those that it is restarted with.
        self.sibling: Sibling | None = None
        # The snapshot of its last incarnation.
        self.kept: object = None
        # The last failure, until the actor runs again, and whether it has been reported; and what it was, in words.
        self.failure: Failure | None = None
        self.last_failure: str | None = None
        # Where it was spawned, if it has not come as far as to be made.
        self.spawned_at: str | None = None
        # Whether its arguments do not fit its constructor: then no other start would fare better.
        self.bad_arguments = False
        self.reported = True
        self.log = LogLimit()

    def ran(self, now: float) -> float | None:
        """How long the incarnation that failed had run; None if it never did, or has run from the start."""
        failed_to_start = self.failure is not None and not self.failure.was_running
        return None if self.running_since is None or failed_to_start else elapsed(self.running_since, now)

    def forget_alarm(self) -> None:
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        self.due = None


def restart_state_of(record: ActorRecord) -> RestartState:
    extras = record.ensure_extras()
    if extras.restart_state is None:
        extras.restart_state = RestartState()
    return extras.restart_state


def failures_in_a_row(record: ActorRecord, restart_state: RestartState) -> int:
    """How often the actor failed without having run for long enough in between."""
    since = None if record.stage == RESTING else restart_state.running_since
    return restart_state.delays.in_a_row(None if since is None else elapsed(since, record.cell.loop.now()))


def incarnation_of(record: ActorRecord) -> int:
    """How many times the actor has been made; while it rests, the number of the next incarnation."""
    restart_state = None if record.extras is None else record.extras.restart_state
    return 1 if restart_state is None else restart_state.incarnation + (1 if record.stage == RESTING else 0)
