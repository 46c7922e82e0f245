"""What a meta-process knows of its runtime side, as a protocol."""

from __future__ import annotations

from collections.abc import Mapping
from logging import Logger, LoggerAdapter
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from greenroom.actor.api.context import Context
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.actor.messaging.reply import Reply
    from greenroom.lanes import Lane
    from greenroom.meta.process.callbacks import Callbacks

__all__ = ["HostPort", "ReaderPort"]


class HostPort(Protocol):
    """The runtime's side of a meta-process; `MetaHost` is it."""

    @property
    def alias(self) -> Alias:
        """What others send to."""
        ...

    @property
    def ctx(self) -> Context:
        """The context of the actor that it is to the runtime."""
        ...

    @property
    def parent(self) -> ActorRef:
        """Whose it is."""
        ...

    @property
    def env(self) -> Mapping[str, Any]:
        """Its environment."""
        ...

    @property
    def log(self) -> LoggerAdapter[Logger]:
        """Its logger."""
        ...

    @property
    def sender(self) -> ActorRef | None:
        """Who sent the message in hand."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether it is to end."""
        ...

    @property
    def stopping(self) -> Event:
        """Set when it is to end."""
        ...

    def defer_reply(self) -> Reply:
        """Have the message that is handled answered later."""
        ...

    def send_when_room(self, target: ActorRef, message: object, lane: Lane) -> None:
        """Send, and block until there is room."""
        ...

    def send_in_time(self, target: ActorRef, message: object) -> None:
        """Send now, or as soon as there is room."""
        ...

    async def send_patiently(self, target: ActorRef, message: object) -> None:
        """Send, and await room for it."""
        ...

    def stall(self, stalls: bool) -> None:
        """Let messages wait, or go on."""
        ...

    def bury(self, message: object, why: str) -> None:
        """Let a message that cannot be passed on be a dead letter."""
        ...


class ReaderPort(HostPort, Protocol):
    """The same, as its reader knows it."""

    @property
    def callbacks(self) -> Callbacks:
        """What there is to know of its class."""
        ...

    @property
    def meta(self) -> Any:
        """The meta-process."""
        ...

    def reader_ended(self, reader: Any, error: BaseException | None) -> None:
        """Its `start` has returned, or raised."""
        ...
