"""What an actor under test has done, as values: one class for each kind of effect."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, cast

from greenroom.actor.messaging.drain import Drain
from greenroom.actor.spawner import CONCURRENT
from greenroom.errors import AlreadyReplied, BadArgument, in_words
from greenroom.frozen import Frozen
from greenroom.lanes import Lane
from greenroom.testing.probing.matching import shown

if TYPE_CHECKING:
    from greenroom._core.timing.timers import Timer
    from greenroom.actor.life.spec import ActorSpec
    from greenroom.actor.messaging.question import Question
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.signals import MonitorRef
    from greenroom.actor.records.record import ActorRecord, Settings
    from greenroom.lanes import MailboxConfig
    from greenroom.policy.directives import Directive
    from greenroom.policy.specs import Supervision

__all__ = [
    "Demonitored",
    "Effect",
    "Failed",
    "Linked",
    "Monitored",
    "Sent",
    "Spawned",
    "Stopped",
    "TimerStarted",
    "Unlinked",
    "Unwatched",
    "Watched",
]


class Effect:
    """Something that an actor under test has done, or that has become of it."""

    __slots__ = ()


class Sent(Effect):
    """A message that it sent: `to` whom, by which `lane`, with which actor as its `sender`.

    If it was asked (`is_ask`), the test answers it by `reply` or `fail`.
    """

    __slots__ = ("_is_answered", "_question", "_settle", "lane", "message", "sender", "to")

    def __init__(
        self,
        to: ActorRef,
        message: Any,
        lane: Lane,
        sender: ActorRef | None,
        question: Question | None,
        settle: Callable[[], None],
    ) -> None:
        self.to = to
        self.message = message
        self.lane = lane
        self.sender = sender
        self._question = question
        self._settle = settle
        self._is_answered = False

    def __repr__(self) -> str:
        how = "" if self.lane is Lane.DATA else f" by {self.lane!r}"
        asked = ", which asks for a reply" if self.is_ask else ""
        return f"<Sent {shown(self.message)} to {self.to}{how}{asked}>"

    @property
    def is_ask(self) -> bool:
        """Whether somebody waits for a reply to it, or did."""
        return self._question is not None

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits for a reply."""
        return self._question is not None and not self._question.done()

    def reply(self, value: object = None) -> None:
        """Answer with `value`; whoever awaits it goes on. If nobody does any more, the reply is a dead letter."""
        self._claim("reply()").answer(value)
        self._settle()

    def fail(self, cause: BaseException) -> None:
        """Let `cause` be raised where the reply is awaited."""
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


class Spawned(Effect):
    """An actor that it brought up: what was given to `spawn`, and the `ref` of what stands in for it.

    Options are as they hold for it: those that were not given are its parent's, or the system's.
    """

    __slots__ = (
        "_messages",
        "args",
        "dispatcher",
        "drain",
        "env",
        "factory",
        "kwargs",
        "mailbox",
        "ref",
        "supervision",
    )

    ref: ActorRef
    factory: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    supervision: Supervision
    mailbox: MailboxConfig
    drain: Drain
    env: Mapping[str, Any]
    dispatcher: str

    def __init__(self, messages: Callable[[ActorRef], list[Any]]) -> None:
        self._messages = messages

    def complete(self, record: ActorRecord) -> None:
        """Take in what is not known yet in the middle of a spawn."""
        spec: ActorSpec = record.spec
        settings: Settings = record.settings()
        drain = None if record.extras is None else record.extras.drain
        self.ref = record.cell.ref
        self.factory = spec.factory
        self.args = spec.args
        self.kwargs = spec.kwargs
        self.supervision = cast("Supervision", settings.supervision)
        self.mailbox = record.cell.config
        self.drain = Drain.DEAD_LETTER if drain is None else drain
        self.env = dict(settings.env)
        named = None if record.extras is None else record.extras.dispatcher
        self.dispatcher = CONCURRENT if named is None else named

    def __repr__(self) -> str:
        return f"<Spawned {self.ref}>"

    @property
    def name(self) -> str:
        """What it is called."""
        return self.ref.name

    @property
    def messages(self) -> list[Any]:
        """What it was sent."""
        return self._messages(self.ref)


class TimerStarted(Effect):
    """A timer that it started; `key` is None for those without one."""

    __slots__ = ("_now", "_timer", "delay", "fixed_rate", "interval", "key", "message", "to")

    def __init__(self, timer: Timer, key: Hashable, to: ActorRef, delay: float, now: Callable[[], float]) -> None:
        self.key = key
        self.to = to
        # A timer lets go of what it has when it ends.
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
        """Whether a tick is still to come or to be handled."""
        return bool(self._timer.active)

    @property
    def due(self) -> float:
        """Seconds until its next tick."""
        return max(0.0, self._timer.deadline - self._now()) if self.active else 0.0


class Failed(Effect):
    """It let an exception out, and what was decided about that. `doing` says what it did: `on Deposit`.

    What `pre_stop`, `post_stop` and `pre_restart` raise changes nothing: there is no decision about it.
    """

    __slots__ = ("cause", "decision", "doing")

    def __init__(self, cause: BaseException, doing: str) -> None:
        self.cause = cause
        self.doing = doing
        # Known as soon as the runtime has come to it, before the test goes on.
        self.decision: Directive | None = None

    @property
    def told(self) -> str:
        """What there is to say of it, for whoever did not expect it."""
        decided = "which changed nothing" if self.decision is None else str(self.decision)
        return f"{self.doing}: {in_words(self.cause)} ({decided})"

    def __repr__(self) -> str:
        decided = "" if self.decision is None else f", {self.decision}"
        return f"<Failed {self.doing}: {in_words(self.cause)}{decided}>"


class Stopped(Frozen, Effect):
    """Another actor that ended by its doing: a child that it stopped, say, or that ended with it."""

    __slots__ = ("ref",)

    ref: ActorRef

    def __init__(self, ref: ActorRef) -> None:
        self._set(ref)


class Watched(Frozen, Effect):
    """It watches `ref`, and is to get `message` instead of the signal, if not None."""

    __slots__ = ("ref", "message")  # noqa: RUF023 - their order is that of the arguments

    ref: ActorRef
    message: Any

    def __init__(self, ref: ActorRef, message: object = None) -> None:
        self._set(ref, message)


class Unwatched(Frozen, Effect):
    """It watches `ref` no more."""

    __slots__ = ("ref",)

    ref: ActorRef

    def __init__(self, ref: ActorRef) -> None:
        self._set(ref)


class Monitored(Frozen, Effect):
    """It monitors `ref`, and got `mref` for that."""

    __slots__ = ("ref", "mref")  # noqa: RUF023 - as above

    ref: ActorRef
    mref: MonitorRef

    def __init__(self, ref: ActorRef, mref: MonitorRef) -> None:
        self._set(ref, mref)


class Demonitored(Frozen, Effect):
    """It ended one of its monitors."""

    __slots__ = ("ref", "mref")  # noqa: RUF023 - as above

    ref: ActorRef
    mref: MonitorRef

    def __init__(self, ref: ActorRef, mref: MonitorRef) -> None:
        self._set(ref, mref)


class Linked(Frozen, Effect):
    """It shares the fate of `ref`."""

    __slots__ = ("ref",)

    ref: ActorRef

    def __init__(self, ref: ActorRef) -> None:
        self._set(ref)


class Unlinked(Frozen, Effect):
    """It shares the fate of `ref` no more."""

    __slots__ = ("ref",)

    ref: ActorRef

    def __init__(self, ref: ActorRef) -> None:
        self._set(ref)
