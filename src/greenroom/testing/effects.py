"""The effects of an actor under test: what it has done, one class for each kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from greenroom.actor.messaging.drain import Drain
from greenroom.actor.spawner import CONCURRENT
from greenroom.errors import AlreadyReplied, BadArgument
from greenroom.errortext import in_words
from greenroom.lanes import Lane
from greenroom.testing.probing.matching import shown

if TYPE_CHECKING:
    from greenroom._core.timing.timers import Timer
    from greenroom.actor.messaging.question import Question
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.signals import MonitorRef
    from greenroom.actor.records.record import ActorRecord
    from greenroom.lanes import MailboxConfig
    from greenroom.policy.directives import Directive
    from greenroom.policy.specs import Supervision


class Effect:
    """Something that an actor under test did, or that happened to it."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class Sent(Effect):
    """A message that the actor sent: its receiver `to`, its `lane` and its `sender`.

    If the message was asked (`is_ask`), the test answers it with `reply` or `fail`.
    """

    to: ActorRef
    message: Any
    lane: Lane
    sender: ActorRef | None
    _question: Question | None
    _settle: Callable[[], None]
    _is_answered: bool = False

    def __repr__(self) -> str:
        how = "" if self.lane is Lane.DATA else f" by {self.lane!r}"
        asked = ", which asks for a reply" if self.is_ask else ""
        return f"<Sent {shown(self.message)} to {self.to}{how}{asked}>"

    @property
    def is_ask(self) -> bool:
        """Whether the message was asked, not told."""
        return self._question is not None

    @property
    def is_open(self) -> bool:
        """Whether the asker still waits for a reply."""
        return self._question is not None and not self._question.done()

    def reply(self, value: object = None) -> None:
        """Answer with `value`, and let the asker go on. If it waits no more, the reply is a dead letter."""
        self._claim("reply()").answer(value)
        self._settle()

    def fail(self, cause: BaseException) -> None:
        """Raise `cause` where the reply is awaited."""
        if not isinstance(cause, BaseException):
            raise BadArgument(f"an ask fails with an exception, not with {cause!r}")
        self._claim("fail()").refuse(cause)
        self._settle()

    def _claim(self, what: str) -> Question:
        if self._question is None:
            raise BadArgument(f"{what}: {shown(self.message)} was told to {self.to}, not asked, so nobody waits")
        if self._is_answered:
            raise AlreadyReplied
        self._is_answered = True
        return self._question


@dataclass(slots=True, eq=False, repr=False)
class Spawned(Effect):
    """An actor that was spawned: the arguments of `spawn`, and the `ref` of the stub in its place.

    Options that were not given have the values of the parent or of the system.
    """

    _messages: Callable[[ActorRef], list[Any]]
    ref: ActorRef = field(init=False)
    factory: Any = field(init=False)
    args: tuple[Any, ...] = field(init=False)
    kwargs: Mapping[str, Any] = field(init=False)
    supervision: Supervision = field(init=False)
    mailbox: MailboxConfig = field(init=False)
    drain: Drain = field(init=False)
    env: Mapping[str, Any] = field(init=False)
    dispatcher: str = field(init=False)
    stop_timeout: float = field(init=False)

    def complete(self, record: ActorRecord) -> None:
        """Fill in what is not known before the spawn is complete."""
        cell, settings, extras = record.cell, record.settings(), record.extras
        drain, dispatcher = (None, None) if extras is None else (extras.drain, extras.dispatcher)
        own: float | None = settings.stop_timeout
        self.ref = cell.ref
        self.factory = record.spec.factory
        self.args = record.args
        self.kwargs = record.spec.kwargs
        self.supervision = settings.supervision
        self.mailbox = cell.config
        self.drain = Drain.DEAD_LETTER if drain is None else drain
        self.env = dict(settings.env)
        self.dispatcher = CONCURRENT if dispatcher is None else dispatcher
        self.stop_timeout = cell.loop.host.system.config.stop_timeout if own is None else own

    def __repr__(self) -> str:
        return f"<Spawned {self.ref}>"

    @property
    def name(self) -> str:
        return self.ref.name

    @property
    def messages(self) -> list[Any]:
        """The messages that were sent to it."""
        return self._messages(self.ref)


class TimerStarted(Effect):
    """A timer that the actor started. `key` is None for timers without a key."""

    __slots__ = ("_now", "_timer", "delay", "fixed_rate", "interval", "key", "message", "to")

    def __init__(self, timer: Timer, key: Hashable, to: ActorRef, delay: float, now: Callable[[], float]) -> None:
        self.key = key
        self.to = to
        # A timer clears its fields when it ends.
        self.message: Any = timer.message
        self.delay = delay
        self.interval: float | None = timer.interval or None
        self.fixed_rate: bool = timer.fixed_rate
        self._timer = timer
        self._now = now

    def __repr__(self) -> str:
        key = "" if self.key is None else f" {self.key!r}"
        again = "" if self.interval is None else f", every {self.interval:g} s"
        when = f"due in {self.due:g} s" if self.active else "over"
        return f"<Timer{key}: {shown(self.message)} to {self.to}, {when}{again}>"

    @property
    def active(self) -> bool:
        """Whether a tick is still due or not yet handled."""
        return bool(self._timer.active)

    @property
    def due(self) -> float:
        """Seconds until the next tick."""
        return max(0.0, self._timer.deadline - self._now()) if self.active else 0.0


@dataclass(slots=True, eq=False, repr=False)
class Failed(Effect):
    """The actor raised an exception, and its supervision decided what to do. `doing` says where: `on Deposit`.

    `decision` is None for exceptions of `pre_stop`, `post_stop` and `pre_restart`: they change nothing. For others it
    is set before the test goes on.
    """

    cause: BaseException
    doing: str
    decision: Directive | None = None

    @property
    def told(self) -> str:
        """A description for a test that did not expect the failure."""
        decided = "which changed nothing" if self.decision is None else str(self.decision)
        return f"{self.doing}: {in_words(self.cause)} ({decided})"

    def __repr__(self) -> str:
        decided = "" if self.decision is None else f", {self.decision}"
        return f"<Failed {self.doing}: {in_words(self.cause)}{decided}>"


@dataclass(frozen=True, slots=True)
class Stopped(Effect):
    """Another actor that the actor ended: a child that it stopped, or that ended with it."""

    ref: ActorRef


@dataclass(frozen=True, slots=True)
class Watched(Effect):
    """The actor began to watch `ref`. If `message` is not None, that comes instead of the signal."""

    ref: ActorRef
    message: Any = None


@dataclass(frozen=True, slots=True)
class Unwatched(Effect):
    """The actor stopped watching `ref`."""

    ref: ActorRef


@dataclass(frozen=True, slots=True)
class Monitored(Effect):
    """The actor began to monitor `ref`; `mref` identifies the monitor."""

    ref: ActorRef
    mref: MonitorRef


@dataclass(frozen=True, slots=True)
class Demonitored(Effect):
    """The actor ended a monitor."""

    ref: ActorRef
    mref: MonitorRef


@dataclass(frozen=True, slots=True)
class Linked(Effect):
    """The actor linked itself to `ref`."""

    ref: ActorRef


@dataclass(frozen=True, slots=True)
class Unlinked(Effect):
    """The actor unlinked itself from `ref`."""

    ref: ActorRef
