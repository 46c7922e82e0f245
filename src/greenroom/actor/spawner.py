"""The way into `Lifecycle.spawn` from outside: options are checked, and other threads wait for the loop's own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf
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

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from greenroom.actor.life.spawnsite import SpawnSite
    from greenroom.actor.messaging.ref import ActorRef, Alias

    T = TypeVar("T")

__all__ = ["CONCURRENT", "SPREAD", "Spawner"]

CONCURRENT = "concurrent"
"""The dispatcher of actors that are spawned without one: the system's own loop."""
SPREAD = "spread"
"""That of actors that go to the loop with the fewest."""


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
        if mailbox is not None and not isinstance(mailbox, MailboxConfig):
            raise ConfigError("mailbox", mailbox, "must be a MailboxConfig")
        if supervision is not None and not isinstance(supervision, Supervision):
            raise ConfigError("supervision", supervision, "must be a Supervision, as in Supervision(Directive.STOP)")
        if drain is not None and not isinstance(drain, Drain):
            raise ConfigError("drain", drain, "must be Drain.DROP, Drain.DEAD_LETTER or Drain.REDIRECT(ref)")
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
            return self._spawn_there(life, factory, args, kwargs, parent, name, mailbox, own, drain, dispatcher, site)
        settings = _inherit(life, parent, supervision, env, stop_timeout) if has_settings else None
        return life.spawn(factory, args, kwargs, parent, name, mailbox, settings, drain, dispatcher)

    def _prepare_meta(
        self, factory: Any, label: str, parent: ActorRef, options: Mapping[str, Any], own_code: bool
    ) -> Alias:
        """Spawn what `factory` makes, a meta-process to the runtime, but do not start it."""

        life = _life_of(self._life, parent)

        def prepare() -> Alias:
            return life.hold_back(self.spawn(factory, parent=parent, **options), label, own_code)

        return self._call_at(life, "spawn_meta()", prepare)

    def _start_meta(self, alias: Alias) -> bool:
        """Start it; False when it has ended meanwhile."""
        life: Lifecycle = alias._cell.loop.host
        return self._call_at(life, "spawn_meta()", partial(life.let_start, alias._cell))

    def _take_meta_back(self, alias: Alias) -> None:
        """Do not spawn it after all."""
        life: Lifecycle = alias._cell.loop.host
        self._call_at(life, "spawn_meta()", partial(life.take_back, alias._cell))

    # Apart, because a function with a closure in it is slower from its first line on.
    def _spawn_there(
        self,
        life: Lifecycle,
        factory: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        parent: ActorRef | None,
        name: str | None,
        mailbox: MailboxConfig | None,
        own: tuple[Supervision | None, Mapping[str, Any] | None, float | None] | None,
        drain: Drain | None,
        dispatcher: str | None,
        site: SpawnSite | None,
    ) -> ActorRef:
        def spawn() -> ActorRef:
            # Only here: what the parent has is its loop's to read.
            settings = None if own is None else _inherit(life, parent, *own)
            return life.spawn(factory, args, kwargs, parent, name, mailbox, settings, drain, dispatcher, site)

        return self._call_at(life, "spawn()", spawn)

    def _choose_life(self, dispatcher: str | None, factory: Any, name: str | None) -> Lifecycle:
        """The host of the loop on which an actor without a parent is to live."""
        return self._life

    def _call_at(self, host: Lifecycle, what: str, action: Callable[[], T]) -> T:
        """Do something on the thread of `host`'s loop, and wait for its result."""
        raise NotImplementedError


def _checked_name(name: object) -> str:
    """The same, as a plain text: an enum's member may stand for one."""
    if not isinstance(name, str) or not name or "/" in name or "$" in name:
        raise InvalidName(name)
    return str.__str__(name)


def _life_of(life: Lifecycle, parent: object) -> Lifecycle:
    """The host of the loop of `parent`, which must be an actor of the same system: its children live there too."""
    if not isinstance(parent, Address):
        raise ConfigError("parent", parent, "must be the ref of the parent")
    if parent._cell.loop is life.loop:
        return life
    host = parent._cell.loop.host
    if host.port is not life.port:
        raise WrongLoop(parent)
    return host  # type: ignore[no-any-return]


def _require_seconds(name: str, seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < inf:
        raise ConfigError(name, seconds, "must be a number of seconds, zero or more")


def _require_settings(env: object, stop_timeout: object) -> None:
    if env is not None and not isinstance(env, Mapping):
        raise ConfigError("env", env, "must be a mapping")
    if stop_timeout is not None:
        _require_seconds("stop_timeout", stop_timeout)


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
