"""What a context does with the world outside: meta-processes, and file descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from greenroom.actor.api.fdwatch import FdWatch, unwatch_fd, watch_fd
from greenroom.actor.messaging.ref import Alias
from greenroom.errors import NotAMeta

if TYPE_CHECKING:
    from greenroom.actor.records.record import ActorRecord

    class _Base(ActorRecord): ...

else:

    class _Base:
        """What the methods below use of the record, `ContextRecord` has."""

        __slots__ = ()


__all__ = ["Outside"]

O_contra = TypeVar("O_contra", contravariant=True)


class Spawnable(Protocol[O_contra]):
    """A meta-process, as a context knows it; `MetaProcess` is it."""

    def __greenroom_spawn__(self, parent: Any, options: O_contra | None, factory: Callable[[], Any] | None, /) -> Alias:
        """Bring it up, as a child of the actor with the context `parent`."""
        ...


class Outside(_Base):
    """The part of `Context` that reaches beyond actors."""

    __slots__ = ()

    def spawn_meta(
        self, meta: Spawnable[O_contra] | Callable[[], Spawnable[O_contra]], options: O_contra | None = None
    ) -> Alias:
        """Bring up a meta-process, which belongs to this actor and ends with it. Raises what its `init` raises.

        Given a function that makes one, it can be restarted: see `MetaOptions(supervision=...)`.
        """
        factory = None
        if not hasattr(meta, "__greenroom_spawn__") or isinstance(meta, type):
            if not callable(meta):
                raise NotAMeta(f"spawn_meta() takes a MetaProcess, or a function that makes one, not {meta!r}")
            factory = meta
            meta = factory()
        if not hasattr(meta, "__greenroom_spawn__"):
            raise NotAMeta(f"spawn_meta() was given {factory!r}, which made {meta!r}, and that is no MetaProcess")
        made: Any = meta
        alias: Alias = made.__greenroom_spawn__(self, options, factory)
        return alias

    @property
    def metas(self) -> list[Alias]:
        """The aliases of its meta-processes, oldest first."""
        records = [] if self.child_list is None else self.child_list.records()
        lasting = [child for child in records if child.extras is None or child.extras.ending is None]
        return [ref for child in lasting if isinstance(ref := child.cell.ref, Alias)]

    def watch_fd(self, fd: Any, interest: int, *, once: bool = False) -> FdWatch:
        """Receive `IoReady(fd, events)` whenever `fd` can be read (`READ`) or written (`WRITE`); with `once`, one time.

        `fd` is a number, or anything with a `fileno()`. While an `IoReady` is not handled there is no other. A
        descriptor that cannot be watched is a `WatchError`, as is one that is watched already.
        """
        return watch_fd(self, fd, interest, once)

    def unwatch_fd(self, fd: Any) -> bool:
        """Watch `fd` no more, also if an `IoReady` is queued; False if this actor does not watch it."""
        return unwatch_fd(self, fd)
