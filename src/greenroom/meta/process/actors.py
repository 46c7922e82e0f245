"""What a meta-process is to the runtime: an actor of one of these classes, whose code is its callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.actor import Actor
from greenroom.exits import SHUTDOWN, ExitReason

if TYPE_CHECKING:
    from greenroom.meta.process.birth import Birth
    from greenroom.meta.process.host import MetaHost

__all__ = ["LoopMeta", "PoolMeta"]


class MetaActor(Actor[Any, Any]):
    """What both have in common."""

    __slots__ = ("birth", "host")

    birth: Birth
    host: MetaHost

    def __init__(self, birth: Birth) -> None:
        self.birth = birth

    def reason(self) -> ExitReason:
        """How it ends; of one that is restarted, why."""
        extras = self.ctx.ensure_extras()
        if extras.ending is not None:
            return extras.ending
        cause = None if extras.restart_state is None else extras.restart_state.cause
        return SHUTDOWN if cause is None else ExitReason.of(cause)

    def receive(self, message: object) -> object:
        """A message, or a call."""
        return self.host.handle(message)

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """What the meta-process shows of itself."""
        shown: Mapping[str, Any] = self.host.meta.inspect(*items)
        return shown


class LoopMeta(MetaActor):
    """Its callbacks never block, and run on the system's own thread."""

    __slots__ = ()
    __greenroom_stays_on_loop__: ClassVar[bool] = True

    def pre_start(self) -> object:
        """Have the meta-process initialised, if that is not done, and prepared."""
        self.host = self.birth.next_host(self.ctx)
        self.host.initialise()
        return self.host.meta._prepare()

    def post_start(self) -> None:
        """Have it read."""
        self.host.begin()

    def pre_stop(self) -> None:
        """It is to end, and those below it next."""
        self.host.meta._before_children_end()

    def post_stop(self) -> object:
        """Have it end."""
        return self.host.end(self.reason(), None)


class PoolMeta(MetaActor):
    """Its callbacks may block: they run on a thread of the pool. What is `async` here runs on the system's own."""

    __slots__ = ()

    async def _call(self, function: Callable[..., object], *arguments: object) -> object:
        """Have a callback called where it may block."""
        executor = self.ctx.ensure_extras().executor
        if executor is None:  # in a simulation there are no threads
            result = function(*arguments)
        else:
            result = await executor.call(self.ctx.cell, function, arguments, True)
        return await result if isawaitable(result) else result

    async def pre_start(self) -> None:
        """Have the meta-process initialised, if that is not done."""
        self.host = self.birth.next_host(self.ctx)
        if not self.host.initialised:
            await self._call(self.host.initialise)

    async def post_start(self) -> None:
        """Have it read."""
        self.host.begin()

    async def post_stop(self) -> None:
        """Have it end."""
        ending = self.host.end(self.reason(), self._call)
        if ending is not None:
            await ending
