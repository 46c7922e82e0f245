"""What a loop asks of the actors' floor about messages and refs; `Lifecycle` adds the lives.

Dead letters, replies that came too late, messages that are handed off to another thread or process, and refs that come
back from a pickle.
"""

from __future__ import annotations

from _thread import get_ident
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from greenroom._core.build import COMPILED
from greenroom._core.mailbox.cell import ENDED, Cell
from greenroom._core.mailbox.mailbox import Mailbox
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.host import HostBase
from greenroom._core.scheduler.loop import Loop
from greenroom.actor.api.becoming import become_next
from greenroom.actor.api.behavior import SAME, Behavior
from greenroom.actor.api.behavior import STOPPED as STOPPED_BEHAVIOR
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.records.record import ActorRecord, Tombstone, tombstone_of
from greenroom.errors import RefGone
from greenroom.exits import ExitKind, ExitReason
from greenroom.lanes import MailboxConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeVar

    from greenroom.actor.messaging.address import Address
    from greenroom.actor.messaging.question import Question
    from greenroom.actor.records.ports import SystemPort

    T = TypeVar("T")

__all__ = ["MessageHost"]


class MessageHost(HostBase):
    """The part of a loop's host that is about messages and refs."""

    __slots__ = ("loop", "pickled", "poller", "port")

    def __init__(self, port: SystemPort) -> None:
        self.port = port
        self.loop: Loop = None  # type: ignore[assignment]
        # What ties the loop to asyncio; the system sets it.
        self.poller: Any = None
        # Cells whose refs were pickled, for as long as anybody has such a ref.
        self.pickled: WeakValueDictionary[int, Cell] = WeakValueDictionary()

    def serve(self, loop: Loop) -> None:
        """Be the host of `loop`, from now on."""
        self.loop = loop

    def is_foreign(self) -> bool:
        """Whether this is another thread than the loop's own."""
        if COMPILED:
            foreign: bool = thread_ident() != self.loop.runq.thread
        else:
            foreign = get_ident() != self.loop.runq.thread
        return foreign

    def call(self, what: str, action: Callable[[], T]) -> T:
        """Do something on the loop's own thread, and wait for its result."""
        return self.port._call_at(self, what, action)

    def log_fields(self, cell: Cell) -> dict[str, object]:
        """What a log record about an actor has in its fields."""
        return {"actor": cell.name(), "actor_id": cell.id, "system": self.port.name}

    # -- messages that nobody handles

    def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        """A message can never be handled."""
        shown = sender.shown_sender() if isinstance(sender, Receipt) else sender
        self.port.dead_letters.publish(message, shown, cell.shown(), why)

    def unhandled(self, cell: Cell, message: object, sender: object) -> None:
        """A message was not for its actor."""
        shown = sender.shown_sender() if isinstance(sender, Receipt) else sender
        self.publish(message, shown, cell.shown(), "unhandled")

    def late_reply(self, cell: Cell, value: object, asker: object) -> None:
        """An actor answered when nobody waited any more. From any thread."""
        if self.is_foreign() and self.loop.inbound.bring(None, partial(self.late_reply, cell, value, asker)):
            return
        self.loop.admission.totals.late_replies += 1
        cell.count_aside().late_replies += 1
        self.publish(value, cell.shown(), asker, "late reply")

    def publish(self, message: object, sender: object, recipient: object, why: str) -> None:
        """Something that is no message of the ledger, or is counted in another column, is a dead letter."""
        self.port.dead_letters.publish(message, sender, recipient, why)
        if self.loop.hooks.dead_letter:
            self.loop.hooks.emit("dead_letter", recipient, message, sender, why)

    def dropped(self, cell: Cell, message: object, sender: object, lane: object) -> None:
        """A message was dropped by the overflow policy: that is counted, and observers are told."""

    # -- actors whose code runs elsewhere

    def offload(self, cell: Cell, message: object, sender: object, lane: int) -> Coroutine[object, None, object]:
        """Have a message to an actor that works elsewhere handled there."""
        return cell.record.extras.executor.carry(cell, message, sender, lane)  # type: ignore[no-any-return]

    def intercept(self, cell: Cell, message: object, sender: object, lane: object) -> bool:
        """A message to an actor in another process: one that cannot be sent there is refused."""
        self.examine(cell, message)
        return False

    def examine(self, cell: Cell, message: object) -> None:
        """The same, from any thread."""
        record = cell.peek_record()
        if isinstance(record, ActorRecord) and record.extras is not None:
            record.extras.executor.examine(message)

    def is_elsewhere(self, cell: Cell) -> bool:
        """Whether a cell stands for an actor of another process, which keeps its mailbox: not here."""
        return False

    def asks_elsewhere(self, question: Question, message: object, lane: object) -> bool:
        """Ask such an actor, once there is room; False as it is none."""
        return False

    def awaits(self, question: Question) -> None:
        """A handler waits for an actor in another process: who waits for whom is known here."""

    def awaits_elsewhere(self, question: Question) -> None:
        """A handler waits for an actor of another loop, or for one that does: loops know of their own alone."""

    def gave_up(self, question: object) -> None:
        """Nobody waits for its answer any more."""

    def absorb(self, cell: Cell, result: object) -> object:
        """An actor that works elsewhere has returned this; what is left of it for the loop to do. From any thread."""
        if result is SAME:
            return None
        if isinstance(result, Behavior) and result is not STOPPED_BEHAVIOR and not result.unhandled:
            become_next(cell, result)
            return None
        return result

    def message_taken(self, cell: Cell) -> None:
        """An actor with a receive timeout takes a message."""
        cell.record.extras.receive_timer.touch()

    # -- refs

    def _new_ref(self, cell: Cell, name: str | tuple[str], parent: Address | None) -> ActorRef:
        ref = new_object(ActorRef) if COMPILED else ActorRef.__new__(ActorRef)
        ref._cell = cell
        ref._name = name
        ref._parent = parent
        return ref

    def ref_of(self, cell: Cell) -> object:
        """A ref for a cell that has lost its own: an ended actor's."""
        left = cell.peek_record()
        if type(left) is not Tombstone:
            return cell
        return self._new_ref(cell, left.name, left.parent)

    def address_of(self, ref: ActorRef) -> tuple[str, int, str]:
        """Where a ref can be found again, by whoever is sent it: its system, its number there, its path."""
        self.pickled[ref._cell.id] = ref._cell
        return self.port.token, ref._cell.id, ref.path

    def find(self, cell_id: int, path: str) -> ActorRef:
        """The ref of an actor by its id; for one that is gone, a ref whose messages are dead letters."""
        cell = self.loop.table.find(cell_id) or self.pickled.get(cell_id)
        if cell is not None:
            return cell.shown()  # type: ignore[return-value]
        ghost = Cell.__new__(Cell)
        ghost.set_up(self.loop, self.loop.runq, None, None, Mailbox(MailboxConfig()))
        ghost.id = cell_id
        ghost.close()
        ghost.ending = True
        ghost.ended = ENDED
        above, _, name = path.rpartition("/")
        unknown = ExitReason(ExitKind.PANIC, RefGone(self.port.name, path, "it has ended, nobody knows how"))
        parent = (self.port.actor(above) or self.find(0, above)) if above else None
        ghost.record = tombstone_of(unknown, name, parent, None)
        return self._new_ref(ghost, name, ghost.record.parent)
