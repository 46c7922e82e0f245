"""The context of an actor whose code runs on its loop's own thread, as most do.

What handlers use most is compiled here; `Context` documents it, and does everything else. So a message that is answered
through `ctx.sender` or `ctx.reply` costs hardly more than one that carries the ref to answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom._core.itemkinds import MESSAGE
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.host import HostBase
from greenroom.actor.api.context import Context, ContextRecord
from greenroom.actor.messaging.address import Address
from greenroom.actor.records.record import ActorRecord
from greenroom.lanes import Lane

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef

_DATA = Lane.DATA


def shown_sender(cell: Cell) -> object:
    """The sender of the message that an actor has in hand, or that its handler is suspended with."""
    loop = cell.loop
    visits = loop.visits
    in_hand = visits if visits.hand is cell else cell.task
    sender = None if in_hand is None else in_hand.sender
    return sender.shown_sender() if isinstance(sender, Receipt) else sender


def tell_sender(cell: Cell, value: object) -> bool:
    """Tell `value` to the sender of the message in hand; False if it has none, or was asked."""
    loop = cell.loop
    visits = loop.visits
    if visits.hand is not cell or visits.kind != MESSAGE or not isinstance(visits.sender, Address):
        return False
    sender = visits.sender
    sender._cell.accept(value, cell.shown(), _DATA)
    return True


def host_of(cell: Cell) -> HostBase:
    loop = cell.loop
    host: HostBase = loop.host
    return host


class LoopRecord(ActorRecord):
    """The compiled part of `LoopContext`."""

    __slots__ = ()

    @property
    def self(self) -> ActorRef:
        ref: ActorRef = self.cell.shown()  # type: ignore[assignment]
        return ref

    @property
    def sender(self) -> ActorRef | None:
        sender: ActorRef | None = shown_sender(self.cell)  # type: ignore[assignment]
        return sender

    def reply(self, value: object) -> None:
        if not tell_sender(self.cell, value):
            Context.reply(self, value)  # type: ignore[arg-type]

    def spawn(self, factory: Any, /, *args: Any, **options: Any) -> ActorRef:
        cell = self.cell
        if options or cell.is_foreign():
            ref: ActorRef = cell.loop.host.system.spawn(factory, *args, parent=cell.shown(), **options)
        else:
            ref = host_of(cell).spawn_child(cell, factory, args)
        return ref


class LoopContext(LoopRecord, ContextRecord):
    """What handlers and hooks see as `ctx`, on their loop's own thread."""

    __slots__ = ()
