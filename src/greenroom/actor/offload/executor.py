"""Where the code of an actor runs, if that is not on its loop's own thread.

An actor's life stays on its loop, wherever its code runs. An executor only carries out calls of the user's functions,
one at a time for each actor, and brings back what came of them. A subclass says how, in `do`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import iscoroutine

from greenroom._core.handoff.handoff import CallHandoff, Handoff
from greenroom._core.handoff.messages import MessageHandoff
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.context import Context
from greenroom.actor.offload.context import OffloadedContext
from greenroom.actor.records.record import ActorRecord
from greenroom.errors import NotAwaited

__all__ = ["Executor"]


class Executor:
    """Carries out what its actors have to do. Made by a dispatcher, for one actor or for many."""

    has_asyncio = False
    """Whether an asyncio loop runs where the code does."""
    is_remote = False
    """Whether that is in another process: then the actor itself is there, and only a stand-in here."""

    def __init__(self, dispatcher: str) -> None:
        self.dispatcher = dispatcher

    def do(self, handoff: Handoff) -> None:
        """Start carrying out a hand-off, and return. For the loop's own thread."""
        raise NotImplementedError

    def others_wait(self) -> bool:
        """Whether other hand-offs wait for the calling thread."""
        return False

    def is_backed_up(self) -> bool:
        """Whether hand-offs wait, and no thread is free."""
        return False

    def examine(self, message: object) -> None:
        """Raise if a message cannot be sent to where the code runs. From any thread."""

    def enter(self, cell: Cell, record: ActorRecord) -> Handoff:
        """Create the actor in another process; to be awaited: its class, if it has one, and its supervision."""
        raise NotImplementedError

    def has_lost_actor(self) -> bool:
        """Whether the actor was in another process that is lost."""
        return False

    def let_go(self) -> None:
        """An actor that was here has ended for good. For the loop's own thread."""

    def new_context(self) -> Context:
        """The context of an actor that is to be here."""
        return OffloadedContext()

    def runs_on_loop(self, function: Callable[..., object]) -> bool:
        """Whether the loop's own thread calls a function all the same: an async one, if there is no asyncio."""
        return False

    def call(
        self, cell: Cell, function: Callable[..., object], arguments: tuple[object, ...], awaits: bool
    ) -> CallHandoff:
        """Call a user's function; to be awaited. With `awaits`, its result may be awaited there too."""
        call = CallHandoff(cell, function, arguments, awaits)
        self._give(call)
        return call

    def _give(self, handoff: Handoff) -> None:
        try:
            self.do(handoff)
        except BaseException:
            handoff.abandon()
            raise

    def carry(self, cell: Cell, message: object, sender: object, lane: int) -> Coroutine[object, None, object]:
        """Handle a message, and those behind it; to be awaited: what the last handler returned."""
        if self.runs_on_loop(cell.handler):
            handled: Coroutine[object, None, object] = cell.handler(cell.subject, message)
            return handled
        handoff = MessageHandoff(cell, message, sender, lane, self.others_wait, self.is_backed_up)
        handoff.carry()
        return self._carry_out(cell, handoff)

    async def _carry_out(self, cell: Cell, handoff: MessageHandoff) -> object:
        self._give(handoff)
        result = await handoff
        if hasattr(type(result), "__await__"):
            # An async handler was only called there; it runs here, where asyncio does.
            if not iscoroutine(result):
                raise NotAwaited(cell.shown(), result)
            result = await result
        return result
