"""How a meta-process is brought up: spawned, initialised where the caller is, and only then started."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from greenroom.actor.api.props import props
from greenroom.errors import ActorTerminated, DispatcherExists, NotAMeta
from greenroom.exits import NORMAL
from greenroom.meta.process.actors import LoopMeta, PoolMeta
from greenroom.meta.process.birth import Birth, host_of
from greenroom.meta.process.options import DEFAULTS, MetaOptions
from greenroom.system.dispatchers.settings import Parallel

if TYPE_CHECKING:
    from greenroom.actor.api.context import Context
    from greenroom.actor.messaging.ref import Alias
    from greenroom.meta.process.base import MetaBase

__all__ = ["DISPATCHER", "spawn_meta"]

DISPATCHER = "meta"
"""Where handlers run that may block: threads of their own; `SystemConfig(dispatchers={"meta": ...})` says how many."""
THREADS = 32


def spawn_meta(
    meta: MetaBase, parent: Context, options: MetaOptions | None, factory: Callable[[], MetaBase] | None
) -> Alias:
    """Bring up `meta` as a child of the actor whose context is `parent`."""
    if options is None:
        options = DEFAULTS
    elif not isinstance(options, MetaOptions):
        raise NotAMeta(f"spawn_meta() takes its options as MetaOptions(...), not as {options!r}")
    host = host_of(meta, options)
    birth = Birth(host, factory, options)
    system = parent.system
    chosen: dict[str, Any] = options.for_spawn()
    if not host.callbacks.on_loop:
        chosen["dispatcher"] = DISPATCHER
        _ensure_dispatcher(system)
    actor = LoopMeta if host.callbacks.on_loop else PoolMeta
    label = type(meta)._label or type(meta).__name__
    try:
        alias: Alias = system._prepare_meta(props(actor, birth), label, parent.self, chosen, host.callbacks.own_code)
    except BaseException:
        host.detach()
        raise
    host.attach(alias._cell.record)
    try:
        host.initialise()
    except BaseException:
        host.detach()
        system._take_meta_back(alias)
        raise
    birth.is_ready = True
    if not system._start_meta(alias):
        birth.end_unstarted(NORMAL, awaits=False)
        raise ActorTerminated(parent.self, "it ended while its meta-process was made")
    return alias


def _ensure_dispatcher(system: Any) -> None:
    if DISPATCHER not in system.dispatchers:
        with suppress(DispatcherExists):  # another thread was faster
            system.dispatchers.add(DISPATCHER, Parallel(THREADS))
