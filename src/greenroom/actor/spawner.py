"""The way into `Lifecycle.spawn` from outside: options are checked, and other threads wait for the loop's own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED
from greenroom.actor.api.actor import Actor
from greenroom.actor.life.spec import class_info_of, warn_of_ambiguity
from greenroom.actor.lifecycle import BY_CONTEXT, BY_OFFLOADED, Lifecycle, site_of_caller
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.drain import Drain
from greenroom.actor.records.record import ActorRecord, Settings
from greenroom.errors import ConfigError, InvalidName, WrongLoop
from greenroom.lanes import MailboxConfig
from greenroom.policy.specs import Supervision
from greenroom.validation import require_instance, require_seconds

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef, Alias

CONCURRENT = "concurrent"
"""The dispatcher of actors that are spawned without one: the system's own loop."""
SPREAD = "spread"
"""That of actors that go to the loop with the fewest."""


class Spawner:
    """The part of `ActorSystem` that spawns."""

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
        stop_timeout: float | None = None,
        **kwargs: Any,
    ) -> ActorRef:
        """Bring up an actor, and return its ref at once; nothing of it runs inside this call.

        `factory` is an `Actor` class, or another callable that makes one; a function `(ctx, message)`; a `Behavior`; or
        `props(...)`, which holds arguments of its own. All arguments but these options go to the factory.

        Args:
            name: What it is called among its siblings. Without one, it is called after its class and a number.
            mailbox: Its mailbox, if not that of the system's config.
            dispatcher: Where its code runs: `"concurrent"`, `"spread"`, `"parallel"`, `"pinned"`, `"process"`, or your
                own.
            supervision: What happens when it fails, if not what its parent or the system's config says.
            drain: What becomes of the messages that are queued when it ends: dead letters, unless it says otherwise.
            env: What it finds in `ctx.env`, besides what its parent has there.
            parent: Whose child it is. Without one, it is at the top.
            stop_timeout: Seconds that it and its children have to stop, if not those of the system's config.

        >>> import asyncio
        >>> from greenroom import ActorSystem, MailboxConfig
        >>> async def main() -> str:
        ...     async with ActorSystem() as system:
        ...         ref = system.spawn(lambda ctx, message: 2 * message, name="twice", mailbox=MailboxConfig(100))
        ...         return f"{ref}: {await ref.ask(21)}"
        >>> asyncio.run(main())
        '/twice: 42'
        """
        if name is not None:
            name = _checked_name(name)
        if mailbox is not None:
            require_instance("mailbox", mailbox, MailboxConfig, "a MailboxConfig")
        if supervision is not None:
            require_instance(
                "supervision", supervision, Supervision, "a Supervision, as in Supervision(Directive.STOP)"
            )
        if drain is not None:
            require_instance("drain", drain, Drain, "Drain.DROP, Drain.DEAD_LETTER or Drain.REDIRECT(ref)")
        if parent is not None:
            life = _life_of(self._life, parent)
        elif dispatcher is not None or self._life.has_placement:
            life = self._choose_life(dispatcher, factory, name)
        else:
            life = self._life
        has_settings = supervision is not None or env is not None or stop_timeout is not None
        if has_settings:
            _require_settings(env, stop_timeout)
        has_options = name is not None or mailbox is not None or dispatcher is not None or drain is not None
        if (has_options or has_settings) and isinstance(factory, type) and issubclass(factory, Actor):
            ambiguous = class_info_of(factory).ambiguous
            if ambiguous:
                given = (name, mailbox, dispatcher, supervision, drain, env, stop_timeout)
                warn_of_ambiguity(class_info_of(factory), args, kwargs, given)
        if life.is_foreign():
            by_context = parent is not None
            site = caller(by_context, None, BY_CONTEXT, BY_OFFLOADED) if COMPILED else site_of_caller(by_context, 2)
            own = (supervision, env, stop_timeout) if has_settings else None
            options = {"name": name, "mailbox": mailbox, "drain": drain, "dispatcher": dispatcher, "site": site}
            return life.call("spawn()", partial(_spawn_there, life, factory, args, kwargs, parent, own, options))
        settings = _inherit(life, parent, supervision, env, stop_timeout) if has_settings else None
        return life.spawn(factory, args, kwargs, parent, name, mailbox, settings, drain, dispatcher)

    def _prepare_meta(
        self, factory: Any, label: str, parent: ActorRef, options: Mapping[str, Any], own_code: bool
    ) -> Alias:
        life = _life_of(self._life, parent)

        def prepare() -> Alias:
            return life.prepare_meta(self.spawn(factory, parent=parent, **options), label, own_code)

        return life.call("spawn_meta()", prepare)

    def _choose_life(self, dispatcher: str | None, factory: Any, name: str | None) -> Lifecycle:
        return self._life


def _checked_name(name: object) -> str:
    """The name as a plain string: it may be given as a member of an enum."""
    if not isinstance(name, str) or not name or "/" in name or "$" in name:
        raise InvalidName(name)
    return str.__str__(name)


def _life_of(life: Lifecycle, parent: object) -> Lifecycle:
    """The host of the loop of `parent`, which must be an actor of the same system."""
    if not isinstance(parent, Address):
        raise ConfigError("parent", parent, "must be the ref of the parent")
    if parent._cell.loop is life.loop:
        return life
    host = parent._cell.loop.host
    if host.system is not life.system:
        raise WrongLoop(parent)
    return host  # type: ignore[no-any-return]


def _require_settings(env: object, stop_timeout: object) -> None:
    if env is not None:
        require_instance("env", env, Mapping, "a mapping")
    if stop_timeout is not None:
        require_seconds("stop_timeout", stop_timeout)


def _spawn_there(
    life: Lifecycle,
    factory: object,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    parent: ActorRef | None,
    own: tuple[Supervision | None, Mapping[str, Any] | None, float | None] | None,
    options: dict[str, Any],
) -> ActorRef:
    """Spawn on the thread of `life`, which alone reads what the parent hands down."""
    settings = None if own is None else _inherit(life, parent, *own)
    return life.spawn(factory, args, kwargs, parent, settings=settings, **options)


def _inherit(
    life: Lifecycle,
    parent: ActorRef | None,
    supervision: Supervision | None,
    env: Mapping[str, Any] | None,
    stop_timeout: float | None,
) -> Settings:
    record = None if parent is None else parent._cell.record
    base = record.settings() if isinstance(record, ActorRecord) else life.settings
    return Settings(
        base.supervision if supervision is None else supervision,
        base.env if env is None else {**base.env, **env},
        base.stop_timeout if stop_timeout is None else stop_timeout,
    )
