"""How an actor stands with whoever decides about its failures: its restarts so far, and what is to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from greenroom.exits import ExitKind, ExitReason
from greenroom.frozen import Frozen
from greenroom.policy.backoff import Streak
from greenroom.policy.directives import OnRestart
from greenroom.policy.intensity import elapsed

if TYPE_CHECKING:
    from types import TracebackType

    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.timing.timers import Alarm
    from greenroom.actor.records.parts import ReceiveTiming
    from greenroom.actor.records.record import ActorRecord
    from greenroom.policy.intensity import Window

__all__ = ["ChildSupervisor", "Failure", "RestartState", "incarnation_of", "restart_state_of"]


class ChildSupervisor(Protocol):
    """Whoever looks after one actor instead of its `Supervision`: a supervisor, for its child.

    Called in the middle of things, on the actor's own thread: what is to be done about it is done later.
    """

    def wants(self, kind: ExitKind) -> bool:
        """Whether the actor is to rest after such an end, and be started again."""
        ...

    def rested(self, cell: Cell, reason: ExitReason) -> None:
        """The actor has ended and let go of everything; it waits to be started again, or to be ended for good."""
        ...

    def running(self, cell: Cell) -> None:
        """The actor is running, for the first time or again."""
        ...

    def gone(self, cell: Cell, reason: ExitReason) -> None:
        """The actor has ended for good."""
        ...


class RestartGroup(Protocol):
    """Those an actor is restarted with; `Group` is it."""

    def rested(self, member: ActorRecord) -> None:
        """`member` has ended, and waits for the others."""
        ...

    def lose(self, member: ActorRecord) -> None:
        """`member` is not restarted with the others after all."""
        ...

    def has_up(self, member: ActorRecord) -> bool:
        """Whether `member` has been started again already."""
        ...

    def is_up(self, member: ActorRecord) -> None:
        """`member` is running again."""
        ...


class Escalation(Protocol):
    """What a parent is told when a child escalates; `FailOrder` is it."""

    settled: bool
    """Whether the child goes on, because its parent has acted on another failure."""


class Failure(Frozen):
    """One failure of an actor, as it is reported.

    `activity` says what it did: `on Deposit`, `while it started`.
    """

    __slots__ = (  # noqa: RUF023 - their order is that of the arguments
        "cause",
        "activity",
        "message_type",
        "handling_time",
        "incarnation",
        "was_running",
        "is_told",
        "traceback",
    )

    cause: BaseException
    activity: str
    message_type: str | None
    handling_time: float
    incarnation: int
    was_running: bool
    is_told: bool
    """Whether it is another actor's failure, which that one has reported."""
    traceback: TracebackType | None
    """As it was then: the cause's own grows by the frames of whoever asked, and waits for the answer."""

    def __init__(
        self,
        cause: BaseException,
        activity: str,
        message_type: str | None,
        handling_time: float,
        incarnation: int,
        was_running: bool,
        is_told: bool,
    ) -> None:
        self._set(cause, activity, message_type, handling_time, incarnation, was_running, is_told, cause.__traceback__)


class RestartState:
    """Made with an actor's first failure or restart, or when it becomes a supervisor's child."""

    __slots__ = (
        "alarm",
        "at_once",
        "cause",
        "comes_back",
        "due",
        "escalated",
        "escalation",
        "failure",
        "final",
        "group",
        "incarnation",
        "is_held_back",
        "is_misfit",
        "kept",
        "last_failure",
        "last_restart",
        "log_period_began",
        "logged",
        "mailbox",
        "not_logged",
        "patience",
        "place",
        "quiet_time",
        "reason",
        "receive_timer",
        "reported",
        "restarts",
        "resting",
        "running_since",
        "spared",
        "spawned_at",
        "streak",
        "supervisor",
        "window",
    )

    def __init__(self) -> None:
        self.supervisor: ChildSupervisor | None = None
        # Seconds it may take to stop, if that is not the system's `stop_timeout`; inf for as long as it likes.
        self.patience: float | None = None
        # What becomes of its queue in a restart, if its supervisor says so.
        self.mailbox: OnRestart | None = None
        # Whether its supervisor lets it go on after a restart, and not the runtime: when those that it needs are there.
        self.is_held_back = False
        # Whether its next end is for good, whatever its supervisor would want.
        self.final = False
        self.incarnation = 1
        self.restarts = 0
        self.last_restart: float | None = None
        # Since when the present incarnation runs; None for the first one.
        self.running_since: float | None = None
        self.window: Window | None = None
        self.streak = Streak()
        # How long it has to run without failing, before a failure is the first in a row again.
        self.quiet_time = 0.0
        # Whether its ending leads to a restart, and whether it is over and the restart is waited for.
        self.comes_back = False
        self.resting = False
        self.escalated = False
        # What its parent was told of that.
        self.escalation: Escalation | None = None
        # Whether its parent was resumed when it had escalated: what it escalates next may be the same again.
        self.spared = False
        # Why it is being restarted, whether that is because somebody asked for it, and when it is due.
        self.cause: BaseException | None = None
        self.reason: ExitReason | None = None
        self.at_once = False
        self.due: float | None = None
        self.alarm: Alarm | None = None
        # Those it is restarted with.
        self.group: RestartGroup | None = None
        # What its last incarnation wanted to be kept: its snapshot, and its receive timeout.
        self.kept: object = None
        self.receive_timer: ReceiveTiming | None = None
        # The last failure, until the actor runs again, and whether it has been reported; and what it was, in words.
        self.failure: Failure | None = None
        self.last_failure: str | None = None
        # Where it was spawned, if it has not come as far as to be made.
        self.spawned_at: str | None = None
        # Whether its arguments do not fit its constructor.
        self.is_misfit = False
        self.reported = True
        # Where the last one in this period came from, as a number that tells one place from another.
        self.place: int | None = None
        self.log_period_began: float | None = None
        self.logged = 0
        self.not_logged = 0

    def failures_in_a_row(self, now: float) -> int:
        """How often it failed without having run for long enough in between."""
        since = self.running_since
        if (
            since is not None
            and not self.resting
            and elapsed(since, now) >= max(self.quiet_time, self.streak.last_delay)
        ):
            return 0
        return self.streak.attempt


def restart_state_of(record: ActorRecord) -> RestartState:
    """How the actor stands; made on first use."""
    extras = record.ensure_extras()
    if extras.restart_state is None:
        extras.restart_state = RestartState()
    return extras.restart_state


def incarnation_of(record: ActorRecord) -> int:
    """How many times the actor has been made; while it rests between two, the number of the next."""
    restart_state = None if record.extras is None else record.extras.restart_state
    return 1 if restart_state is None else restart_state.incarnation + (1 if restart_state.resting else 0)
