"""Makes the runtime's side of a meta-process, for each of its incarnations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from greenroom.errors import MetaSpawnedBefore, NotAMeta
from greenroom.exits import ExitReason
from greenroom.meta.process.base import MetaBase
from greenroom.meta.process.callbacks import callbacks_of
from greenroom.meta.process.host import MetaHost

if TYPE_CHECKING:
    from greenroom.actor.api.context import Context
    from greenroom.meta.process.options import MetaOptions

__all__ = ["Birth", "host_of"]


class Birth:
    """Makes the host of each incarnation: the first from what was spawned, later ones from a function."""

    __slots__ = ("_factory", "_first", "is_ready", "options")

    def __init__(self, first: MetaHost, factory: Callable[[], MetaBase] | None, options: MetaOptions) -> None:
        # One or none. In a list, for two threads may want it, and only one of them must get it.
        self._first = [first]
        self._factory = factory
        self.options = options
        # Whether the first is initialised, and has to be ended even if it never starts.
        self.is_ready = False

    def next_host(self, ctx: Context) -> MetaHost:
        """The host of the incarnation that begins."""
        if self._first:
            return self._first.pop()
        if self._factory is None:
            raise MetaSpawnedBefore(ctx.self.name)
        meta = self._factory()
        return host_of(meta, self.options).attach(ctx)

    def end_unstarted(self, reason: ExitReason, *, awaits: bool = True) -> Awaitable[object] | None:
        """It was spawned, but ends before it has started: what is still to be awaited, if something is."""
        if self.is_ready:
            with suppress(IndexError):
                return self._first.pop().end_unstarted(reason, awaits=awaits)
        return None


def host_of(meta: MetaBase, options: MetaOptions) -> MetaHost:
    """The host of `meta`, which has had none before."""
    if not isinstance(meta, MetaBase):
        raise NotAMeta(f"{meta!r} is no MetaProcess")
    if meta._host is not None:
        raise MetaSpawnedBefore(type(meta).__name__)
    return MetaHost(meta, callbacks_of(type(meta)), options)
