"""The way into `Lifecycle.spawn` from outside: options are checked, and other threads wait for the loop's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from greenroom.actor.lifecycle import Lifecycle
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.drain import Drain
from greenroom.actor.records.record import ActorRecord, Settings
from greenroom.errors import ConfigError, InvalidName, WrongLoop
from greenroom.lanes import MailboxConfig
from greenroom.policy.specs import Supervision

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from greenroom.actor.messaging.ref import ActorRef

    T = TypeVar("T")

__all__ = ["CONCURRENT", "Spawner"]

CONCURRENT = "concurrent"
"""The dispatcher of actors that are spawned without one: the system's own loop."""


class Spawner:
    """What a system is to those who spawn."""

    __slots__ = ("_life",)

    def __init__(self, life: Lifecycle) -> None:
        self._life = life

    def spawn(
        self,
        factory: Any,
        /,
        *args: Any,
        name: str | None = None,
        mailbox: MailboxConfig | None = None,
        dispatcher: str | None = None,
        supervision: Supervision | None = None,
        drain: Drain | None = None,
        env: Mapping[str, Any] | None = None,
        parent: ActorRef | None = None,
        **kwargs: Any,
    ) -> ActorRef:
        """Bring up an actor, and return its ref at once; nothing of it runs inside this call."""
        life = self._life
        if name is not None:
            name = _checked_name(name)
        if mailbox is not None and not isinstance(mailbox, MailboxConfig):
            raise ConfigError("mailbox", mailbox, "must be a MailboxConfig")
        if supervision is not None and not isinstance(supervision, Supervision):
            raise ConfigError("supervision", supervision, "must be a Supervision, as in Supervision(Directive.STOP)")
        if drain is not None and not isinstance(drain, Drain):
            raise ConfigError("drain", drain, "must be Drain.DROP, Drain.DEAD_LETTER or Drain.REDIRECT(ref)")
        if parent is not None:
            _require_parent(life, parent)
        settings = None
        if supervision is not None or env is not None:
            settings = _inherit(life, parent, supervision, env)
        if life.is_foreign():
            return self._spawn_there(factory, args, kwargs, parent, name, mailbox, settings, drain, dispatcher)
        return life.spawn(factory, args, kwargs, parent, name, mailbox, settings, drain, dispatcher)

    # Apart, because a function with a closure in it is slower from its first line on.
    def _spawn_there(
        self,
        factory: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        parent: ActorRef | None,
        name: str | None,
        mailbox: MailboxConfig | None,
        settings: Settings | None,
        drain: Drain | None,
        dispatcher: str | None,
    ) -> ActorRef:
        return self.call(
            "spawn()",
            lambda: self._life.spawn(factory, args, kwargs, parent, name, mailbox, settings, drain, dispatcher),
        )

    def call(self, what: str, action: Callable[[], T]) -> T:
        """Do something on the system's own thread, and wait for its result."""
        raise NotImplementedError


def _checked_name(name: object) -> str:
    """The same, as a plain text: an enum's member may stand for one."""
    if not isinstance(name, str) or not name or "/" in name or "$" in name:
        raise InvalidName(name)
    return str.__str__(name)


def _require_parent(life: Lifecycle, parent: object) -> None:
    if not isinstance(parent, Address):
        raise ConfigError("parent", parent, "must be the ref of the parent")
    if parent._cell.loop is not life.loop:
        raise WrongLoop(parent)


def _inherit(
    life: Lifecycle, parent: ActorRef | None, supervision: Supervision | None, env: Mapping[str, Any] | None
) -> Settings:
    if env is not None and not isinstance(env, Mapping):
        raise ConfigError("env", env, "must be a mapping")
    record = None if parent is None else parent._cell.record
    base = record.settings() if isinstance(record, ActorRecord) else life.settings
    return Settings(
        base.supervision if supervision is None else supervision,
        base.env if env is None else {**base.env, **env},
    )
