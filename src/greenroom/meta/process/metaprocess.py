"""`MetaProcess`: what users subclass to do blocking work beside an actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenroom.errors import MetaCannotSpawnActors, MetaEnded
from greenroom.meta.process.base import MetaBase
from greenroom.meta.process.spawning import spawn_meta
from greenroom.meta.process.state import MetaState

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import Alias
    from greenroom.meta.process.options import MetaOptions

__all__ = ["MetaProcess"]


class MetaProcess(MetaBase):
    """Two threads of work that belong to one actor: a reader, which may block, and a handler of messages.

    >>> import asyncio, socket
    >>> from greenroom import Actor, ActorSystem
    >>> class Listener(MetaProcess):
    ...     def __init__(self, sock: socket.socket) -> None:
    ...         self.sock = sock
    ...     def start(self) -> None:                     # on a thread of its own: it may block
    ...         while data := self.sock.recv(1024):
    ...             self.send(self.parent, data)
    ...     def handle_message(self, message: bytes) -> None:  # on another one, when there are messages
    ...         self.sock.sendall(message)
    ...     def terminate(self, reason: object) -> None:
    ...         self.sock.close()
    >>> class Shouter(Actor[bytes]):
    ...     def __init__(self, sock: socket.socket) -> None:
    ...         self.sock = sock
    ...     def pre_start(self) -> None:
    ...         self.line = self.ctx.spawn_meta(Listener(self.sock))
    ...     def receive(self, message: bytes) -> None:
    ...         self.line.tell(message.upper())
    >>> async def main() -> bytes:
    ...     ours, theirs = socket.socketpair()
    ...     async with ActorSystem() as system:
    ...         system.spawn(Shouter, ours)
    ...         theirs.sendall(b"hello")
    ...         answer = await asyncio.to_thread(theirs.recv, 1024)
    ...     theirs.close()
    ...     return answer
    >>> asyncio.run(main())
    b'HELLO'

    All six callbacks are optional. `start`, `handle_message`, `handle_call`, `terminate` and `inspect` may be `async
    def`: then they run on the system's event loop, and take no thread.
    """

    def spawn(self, meta: MetaProcess | Callable[[], MetaProcess], options: MetaOptions | None = None, /) -> Alias:
        """Bring up a meta-process that belongs to this one. Not after the end."""
        host = self._require_host("`spawn()`")
        if self._state is MetaState.TERMINATED:
            raise MetaEnded(host.alias)
        factory = None
        if not isinstance(meta, MetaProcess):
            is_ours = isinstance(meta, type) and issubclass(meta, MetaProcess)
            if not is_ours and (isinstance(meta, type) or not callable(meta)):
                raise MetaCannotSpawnActors(host.alias, repr(meta))
            factory, meta = meta, meta()
            if not isinstance(meta, MetaProcess):
                raise MetaCannotSpawnActors(host.alias, repr(meta))
        return spawn_meta(meta, host.ctx, options, factory)

    def __greenroom_spawn__(
        self, parent: Any, options: MetaOptions | None, factory: Callable[[], Any] | None, /
    ) -> Alias:
        return spawn_meta(self, parent, options, factory)
