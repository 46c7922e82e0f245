"""Monitors and links: watches that count, and lives that depend on one another.

As with watches, both sides know of it, and a notice that is on its way stands for the bond until its turn comes: a
monitor given up, or a link undone, in the meantime has no effect any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.records.record import Body
from greenroom.actor.life.hooks import hand_to_actor
from greenroom.actor.messaging.signals import Down, Exit, MonitorRef
from greenroom.actor.relations.watch import cry, require_able
from greenroom.errors import BadArgument, LinkBroken
from greenroom.exits import ExitReason

__all__ = [
    "Bonds",
    "bonds_of",
    "deliver_down",
    "deliver_exit",
    "demonitor",
    "link",
    "monitor",
    "tell",
    "unlink",
]

_numbers = count(1)


class Bonds:
    """The monitors and links of one actor."""

    __slots__ = ("links", "monitored", "monitors", "traps")

    def __init__(self) -> None:
        # Its monitors, with the notice that is on its way, if one is.
        self.monitors: dict[MonitorRef, Down | None] = {}
        # Others' monitors of it.
        self.monitored: dict[MonitorRef, Cell] = {}
        # Invariant: two living actors have each other in here, or neither has; with the notice that is on its way
        self.links: dict[Cell, Exit | None] = {}
        self.traps = False

    def let_go(self, body: Body) -> None:
        """The actor has ended: nobody needs to tell it anything any more."""
        for mref in list(self.monitors):
            demonitor(body, mref, flush=True)


def bonds_of(body: Body) -> Bonds:
    """The bonds of an actor; made on first use."""
    more = body.extra()
    if more.bonds is None:
        more.bonds = Bonds()
    bonds: Bonds = more.bonds
    return bonds


def monitor(body: Body, target: Cell) -> MonitorRef:
    """Let `body` get a `Down` when `target` has ended; at once if it has. Every monitor is one of its own."""
    require_able(body, target)
    mref = MonitorRef(target.shown(), next(_numbers))  # type: ignore[arg-type]
    bonds_of(body).monitors[mref] = None
    theirs = target.body
    if isinstance(theirs, Body):
        bonds_of(theirs).monitored[mref] = body.cell
    else:
        _tell_monitor(body.cell, mref, theirs.reason)
    return mref


def demonitor(body: Body, mref: MonitorRef, flush: bool) -> bool:
    """End a monitor; whether there was one. Without `flush`, a `Down` that is queued still comes."""
    if not isinstance(mref, MonitorRef):
        raise BadArgument(f"demonitor() takes what monitor() returned, not {mref!r}")
    bonds = None if body.more is None else body.more.bonds
    if bonds is None or mref not in bonds.monitors:
        return False
    if bonds.monitors[mref] is None or flush:
        del bonds.monitors[mref]
    theirs = mref.ref._cell.body
    if isinstance(theirs, Body) and theirs.more is not None and theirs.more.bonds is not None:
        theirs.more.bonds.monitored.pop(mref, None)
    return True


def _tell_monitor(watcher: Cell, mref: MonitorRef, reason: ExitReason) -> None:
    body = watcher.body
    if isinstance(body, Body) and body.more is not None and body.more.bonds is not None:
        monitors = body.more.bonds.monitors
        if mref in monitors:
            notice = monitors[mref] = Down(mref, mref.ref, reason)
            watcher.notify(notice)


def deliver_down(body: Body, notice: Down) -> Any:
    """Hand a queued notice to the actor, unless it has ceased to monitor."""
    monitors = bonds_of(body).monitors
    if monitors.get(notice.mref) is not notice:
        return None
    del monitors[notice.mref]
    return hand_to_actor(body, notice)


def link(body: Body, target: Cell) -> None:
    """Let the two share their fate: when one ends abnormally the other fails, unless it traps exits."""
    require_able(body, target)
    if target is body.cell:
        return
    links = bonds_of(body).links
    theirs = target.body
    if isinstance(theirs, Body):
        links[target] = None
        bonds_of(theirs).links[body.cell] = None
    elif links.get(target) is None:
        links[target] = None
        _tell_peer(body.cell, target, target.shown(), theirs.reason)


def unlink(body: Body, target: Cell) -> None:
    """Undo a link; an exit that is queued has no effect any more."""
    bonds = None if body.more is None else body.more.bonds
    if bonds is not None:
        bonds.links.pop(target, None)
        theirs = target.body
        if isinstance(theirs, Body) and theirs.more is not None and theirs.more.bonds is not None:
            theirs.more.bonds.links.pop(body.cell, None)


def _tell_peer(peer: Cell, target: Cell, ref: Any, reason: ExitReason) -> None:
    body = peer.body
    if isinstance(body, Body) and body.more is not None and body.more.bonds is not None:
        links = body.more.bonds.links
        if target in links and links[target] is None:
            notice = links[target] = Exit(ref, reason)
            peer.notify(notice)


def deliver_exit(body: Body, notice: Exit) -> Any:
    """A linked actor has ended: tell this one, or let it fail too."""
    links = bonds_of(body).links
    target = notice.ref._cell
    if links.get(target) is not notice:
        return None
    del links[target]
    if bonds_of(body).traps:
        return hand_to_actor(body, notice)
    if not notice.reason.abnormal:
        return None
    cause = notice.reason.cause
    if cause is None:
        cause = LinkBroken(body.cell.ref, notice.ref, notice.reason)
    # Not raised: each time it is, an exception's traceback grows, and this one may pass many actors.
    body.cell.loop.host.failed(body.cell, notice, cause)
    return None


def tell(bonds: Bonds, cell: Cell, ref: Any, reason: ExitReason) -> None:
    """`cell` has ended: queue a notice for each monitor and each linked actor."""
    if bonds.monitored or bonds.links:
        cry(cell.loop, _tellings(bonds, cell, ref, reason))


def _tellings(bonds: Bonds, cell: Cell, ref: Any, reason: ExitReason) -> Iterator[Callable[[], None]]:
    for mref, watcher in bonds.monitored.items():
        yield partial(_tell_monitor, watcher, mref, reason)
    for peer in bonds.links:
        yield partial(_tell_peer, peer, cell, ref, reason)
