"""Links: when one of two linked actors ends abnormally, the other fails too, unless it traps exits.

As with watches, both sides know of it. An `Exit` that is on its way stands for the link until its turn comes, so a
link that was undone in the meantime has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.signals import Exit
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.relations.watch import require_watchable, there
from greenroom.exits import ExitReason

__all__ = ["Links", "link", "links_of", "unlink"]


class Links:
    """The links of one actor, and whether it traps exits."""

    __slots__ = ("peers", "traps_exits")

    def __init__(self) -> None:
        # Invariant: two living actors have each other in here, or neither has; with the notice that is on its way
        self.peers: dict[Cell, Exit | None] = {}
        self.traps_exits = False

    def notices(self, cell: Cell, ref: ActorRef, reason: ExitReason) -> Iterator[Callable[[], None]]:
        """The actor has ended: what tells each of those linked to it."""
        for peer in self.peers:
            yield partial(_notify, peer, cell, ref, reason)


def links_of(record: ActorRecord) -> Links:
    """The links of an actor; made on first use."""
    extras = record.ensure_extras()
    if extras.links is None:
        extras.links = Links()
    links: Links = extras.links
    return links


def link(record: ActorRecord, target: Cell) -> None:
    """Let the two share their fate: when one ends abnormally the other fails, unless it traps exits."""
    require_watchable(record, target)
    if target is record.cell:
        return
    links_of(record).peers.setdefault(target, None)
    there(target, partial(_add_peer, target, record))


def _add_peer(target: Cell, record: ActorRecord) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord):
        links_of(theirs).peers[record.cell] = None
    else:
        ref: ActorRef = target.shown()  # type: ignore[assignment]
        _notify(record.cell, target, ref, theirs.reason)


def unlink(record: ActorRecord, target: Cell) -> None:
    """Undo a link; an exit that is queued has no effect any more."""
    links = _known_links(record)
    if links is not None:
        links.peers.pop(target, None)
        there(target, partial(_remove_peer, target, record.cell))


def _remove_peer(target: Cell, peer: Cell) -> None:
    theirs = _known_links(target.record)
    if theirs is not None:
        theirs.peers.pop(peer, None)


def _known_links(record: object) -> Links | None:
    """The links of an actor that lives, and has had some."""
    if not isinstance(record, ActorRecord) or record.extras is None:
        return None
    links: Links | None = record.extras.links
    return links


def _notify(peer: Cell, target: Cell, ref: ActorRef, reason: ExitReason) -> None:
    there(peer, partial(_take_exit, peer, target, ref, reason))


def _take_exit(peer: Cell, target: Cell, ref: ActorRef, reason: ExitReason) -> None:
    links = _known_links(peer.record)
    if links is not None and target in links.peers and links.peers[target] is None:
        notice = links.peers[target] = Exit(ref, reason)
        peer.notify(notice)
