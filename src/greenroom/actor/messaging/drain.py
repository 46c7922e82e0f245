"""What becomes of the messages that are still queued when an actor stops.

>>> Drain.DEAD_LETTER
Drain.DEAD_LETTER
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from greenroom._core.flags import ROOM
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import NOTICE, Receipt, is_from_itself
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.question import Question, forward_question
from greenroom.errors import BadArgument

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.records.record import Extras

_EMPTY = -1
_MOST_NAMED = 1000
_ALL = 2**31 - 1


class Drain:
    """`Drain.DROP`, `Drain.DEAD_LETTER` (the default), or `Drain.REDIRECT(ref)`."""

    __slots__ = ("name", "target")

    DROP: ClassVar[Drain]
    DEAD_LETTER: ClassVar[Drain]

    def __init__(self, name: str, target: Address | None = None) -> None:
        self.name = name
        self.target = target

    @staticmethod
    def REDIRECT(ref: ActorRef) -> Drain:  # noqa: N802 - beside its siblings, which are constants
        """Send queued messages to `ref`, with their original senders; `ref` then answers asks."""
        if not isinstance(ref, Address):
            raise BadArgument(f"Drain.REDIRECT() takes the ref to send to, not {ref!r}")
        return Drain("REDIRECT", ref)

    def __repr__(self) -> str:
        return f"Drain.{self.name}" if self.target is None else f"Drain.{self.name}({self.target})"


Drain.DROP = Drain("DROP")
Drain.DEAD_LETTER = Drain("DEAD_LETTER")


class Discards:
    """What a system that ends has discarded, by actor. What an actor had told itself is not worth a word."""

    __slots__ = ("by_actor", "count")

    def __init__(self) -> None:
        # Invariant: at most `_MOST_NAMED` paths; `count` has the messages of all others too
        self.by_actor: dict[str, int] = {}
        self.count = 0

    def note(self, cell: Cell, extras: Extras | None) -> None:
        number = cell.from_others(cell.ref, _ALL)
        if extras is not None and extras.stash is not None:
            number += sum(1 for sender in extras.stash.senders() if not is_from_itself(sender, cell.ref))
        if number:
            self.count += number
            if len(self.by_actor) < _MOST_NAMED:
                path = cell.name()
                self.by_actor[path] = self.by_actor.get(path, 0) + number


def drain(cell: Cell, extras: Extras | None, why: str, *, keeps_notices: bool = False) -> None:
    """Empty the stash and then the mailbox of `cell`, as its strategy says; notices go too, unless they are kept."""
    strategy = Drain.DEAD_LETTER if extras is None or extras.drain is None else extras.drain
    discards: Discards | None = cell.loop.host.discards
    if discards is not None and strategy.target is None:
        discards.note(cell, extras)
    if extras is not None and extras.stash is not None:
        drain_all(cell, strategy, extras.stash.give_up(), why)
    if keeps_notices:
        clear(cell, strategy, why)
        return
    admission = cell.loop.admission
    if strategy is not Drain.DEAD_LETTER:
        while (found := admission.take_next(cell)) is not None:
            _drain_one(cell, strategy, found[0], found[1], why)
    admission.clear(cell, why)


def clear(cell: Cell, strategy: Drain, why: str) -> None:
    """Do with every queued message as `strategy` says. Notices stay: they are not told again."""
    found: list[tuple[object, object]] = []
    notices: list[object] = []
    while (lane := cell.choose()) != _EMPTY:
        sender = cell.sender_of(lane)
        message = cell.take_from(lane)
        if sender is NOTICE:
            notices.append(message)
        else:
            found.append((message, sender))
    for notice in notices:
        cell.enqueue_notice(notice)
    drain_all(cell, strategy, found, why)
    if cell.flags & ROOM:
        cell.loop.admission.fill_up(cell)


def drain_all(cell: Cell, strategy: Drain, entries: list[tuple[object, object]], why: str) -> None:
    """Do with these messages as `strategy` says; those that their receipts have withdrawn just go."""
    for message, sender in entries:
        if isinstance(sender, Receipt) and not sender.live():
            cell.loop.admission.count_withdrawn(cell, sender)
        else:
            _drain_one(cell, strategy, message, sender, why)


def _drain_one(cell: Cell, strategy: Drain, message: object, sender: object, why: str) -> None:
    admission = cell.loop.admission
    if strategy is Drain.DROP:
        admission.drop(cell, message, sender)
    elif strategy is Drain.DEAD_LETTER:
        admission.bury(cell, message, sender, why)
    else:
        target: Cell = strategy.target._cell  # type: ignore[union-attr]
        if isinstance(sender, Question):
            forward_question(sender, target)
        admission.redirect(cell, target, message, sender)
