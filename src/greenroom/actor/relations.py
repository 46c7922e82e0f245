"""Watches, monitors and links: who is told when an actor ends.

Both sides of each know of it. When the one ends, a notice takes its place at the other, until that comes to it: if by
then the relation was given up, or made anew, the notice has no effect.

A monitor belongs to the incarnation that called `monitor()`: only that one has the `MonitorRef`. There is at most one
watch of an actor, and one link with it: those outlive a restart. When one of two linked actors ends abnormally, the
other fails too, unless it traps exits.

However many there are to tell, the loop is not held up: they are told some hundreds at a time, one batch a tick.

The two may live on different loops. Then each side is changed on its own thread, and what one loop brings another stays
in order: so a watch comes before the end of its watcher, and an end behind what was sent before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom.actor.messaging.signals import Down, Exit, MonitorRef, Terminated
from greenroom.actor.records.record import ActorRecord
from greenroom.errors import ActorTerminated, BadArgument, WrongLoop
from greenroom.exits import ExitReason

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.records.record import Extras

__all__ = [
    "BATCH",
    "Links",
    "Monitors",
    "demonitor",
    "link",
    "links_of",
    "monitor",
    "monitors_of",
    "notify_in_batches",
    "tell_watchers",
    "unlink",
    "unwatch",
    "unwatch_all",
    "watch",
]

BATCH = 512
"""How many are told of an end before others have their turn."""

_numbers = count(1)


def _require_related(record: ActorRecord, target: Cell) -> None:
    """Raise unless `record` can be told of the end of `target`: it lives, and in the same system."""
    if record.cell.record is not record:
        raise ActorTerminated(record.cell.shown(), record.cell.record.reason)
    if target.loop is not record.cell.loop and target.loop.host.system is not record.cell.loop.host.system:
        raise WrongLoop(target.shown())


def _there(cell: Cell, action: Callable[..., object], *arguments: object) -> None:
    """Call `action(cell, *arguments)` on the thread of `cell`: at once, if it is this one or that has ended."""
    call = partial(action, cell, *arguments)
    if not cell.is_foreign() or not cell.loop.inbound.post_back(None, call):
        call()


def _extras_of(cell: Cell) -> Extras | None:
    """What a living actor has besides the usual, if it has any of that."""
    return cell.record.extras if isinstance(cell.record, ActorRecord) else None


def notify_in_batches(loop: Loop, tellings: Iterator[Callable[[], None]]) -> None:
    """Call them all: the first at once, the rest in later ticks."""
    for told, tell in enumerate(tellings, 1):
        tell()
        if told == BATCH:
            loop.inbound.post(None, lambda: notify_in_batches(loop, tellings))
            return


# -- watches


class Watch:
    """One watch: what to send when it ends, if not None, and the notice, once that is on its way."""

    __slots__ = ("message", "notice")

    def __init__(self, message: object) -> None:
        self.message = message
        self.notice: object = None


def watch(record: ActorRecord, target: Cell, message: object) -> None:
    """Send `record` a `Terminated` when `target` has ended, perhaps at once. Watching again changes the message."""
    _require_related(record, target)
    watching = record.ensure_extras().watching
    known = watching.get(target)
    if known is not None and known.notice is None:
        known.message = message
        return
    watching[target] = Watch(message)
    _there(target, _add_watcher, record.cell)


def _add_watcher(target: Cell, watcher: Cell) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord):
        if theirs.watchers is None:
            theirs.watchers = {}
        theirs.watchers[watcher] = None
    else:
        ref: ActorRef = target.shown()  # type: ignore[assignment]
        _there(watcher, _take_terminated, target, Terminated(ref, theirs.reason.cause, theirs.reason))


def unwatch(record: ActorRecord, target: Cell) -> None:
    """Watch no more; a notice that is already queued is not delivered."""
    extras = record.extras
    if extras is not None and extras.watching.pop(target, None) is not None:
        _there(target, _remove_watcher, record.cell)


def _remove_watcher(target: Cell, watcher: Cell) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord) and theirs.watchers is not None:
        theirs.watchers.pop(watcher, None)


def unwatch_all(record: ActorRecord) -> None:
    """End the watches of an actor that ends."""
    for target in list(record.ensure_extras().watching):
        unwatch(record, target)


def tell_watchers(watchers: dict[Cell, None], cell: Cell, ref: ActorRef, reason: ExitReason) -> None:
    """`cell` has ended: queue a notice for each of its watchers."""
    notice = Terminated(ref, reason.cause, reason)
    notify_in_batches(cell.loop, (partial(_there, watcher, _take_terminated, cell, notice) for watcher in watchers))


def _take_terminated(watcher: Cell, target: Cell, notice: Terminated) -> None:
    extras = _extras_of(watcher)
    watch = None if extras is None else extras.watching.get(target)
    if watch is not None and watch.notice is None:  # else it has ceased to watch, or ended, before its turn came
        watch.notice = notice
        watcher.notify(notice)


# -- monitors


class Monitors:
    """The monitors of one actor, and others' monitors of it."""

    __slots__ = ("monitored_by", "own")

    def __init__(self) -> None:
        # With the notice that is on its way, if one is.
        self.own: dict[MonitorRef, Down | None] = {}
        self.monitored_by: dict[MonitorRef, Cell] = {}

    def end_all(self, record: ActorRecord) -> None:
        """The actor, or its present incarnation, has ended: it need not hear of others any more."""
        for mref in list(self.own):
            demonitor(record, mref, flush=True)

    def notices(self, reason: ExitReason) -> Iterator[Callable[[], None]]:
        """The actor has ended: what tells each of those that monitor it."""
        for mref, owner in self.monitored_by.items():
            yield partial(_there, owner, _take_down, mref, reason)


def monitors_of(record: ActorRecord) -> Monitors:
    """The monitors of an actor; made on first use."""
    extras = record.ensure_extras()
    if extras.monitors is None:
        extras.monitors = Monitors()
    monitors: Monitors = extras.monitors
    return monitors


def _known_monitors(cell: Cell) -> Monitors | None:
    extras = _extras_of(cell)
    return None if extras is None else extras.monitors


def monitor(record: ActorRecord, target: Cell) -> MonitorRef:
    """Send `record` a `Down` when `target` has ended, perhaps at once. Every call makes a monitor of its own."""
    _require_related(record, target)
    mref = MonitorRef(target.shown(), next(_numbers))  # type: ignore[arg-type]
    monitors_of(record).own[mref] = None
    _there(target, _add_monitor, mref, record.cell)
    return mref


def _add_monitor(target: Cell, mref: MonitorRef, owner: Cell) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord):
        monitors_of(theirs).monitored_by[mref] = owner
    else:
        _there(owner, _take_down, mref, theirs.reason)


def demonitor(record: ActorRecord, mref: MonitorRef, flush: bool) -> bool:
    """End a monitor; whether there was one. Without `flush`, a `Down` that is queued still comes."""
    if not isinstance(mref, MonitorRef):
        raise BadArgument(f"demonitor() takes what monitor() returned, not {mref!r}")
    monitors: Monitors | None = None if record.extras is None else record.extras.monitors
    if monitors is None or mref not in monitors.own:
        return False
    if monitors.own[mref] is None or flush:
        del monitors.own[mref]
    _there(mref.ref._cell, _remove_monitor, mref)
    return True


def _remove_monitor(target: Cell, mref: MonitorRef) -> None:
    theirs = _known_monitors(target)
    if theirs is not None:
        theirs.monitored_by.pop(mref, None)


def _take_down(owner: Cell, mref: MonitorRef, reason: ExitReason) -> None:
    monitors = _known_monitors(owner)
    if monitors is not None and mref in monitors.own:
        notice = monitors.own[mref] = Down(mref, mref.ref, reason)
        owner.notify(notice)


# -- links


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
            yield partial(_there, peer, _take_exit, cell, ref, reason)


def links_of(record: ActorRecord) -> Links:
    """The links of an actor; made on first use."""
    extras = record.ensure_extras()
    if extras.links is None:
        extras.links = Links()
    links: Links = extras.links
    return links


def _known_links(cell: Cell) -> Links | None:
    extras = _extras_of(cell)
    return None if extras is None else extras.links


def link(record: ActorRecord, target: Cell) -> None:
    """Link the two: when one ends abnormally the other fails, unless it traps exits."""
    _require_related(record, target)
    if target is not record.cell:
        links_of(record).peers.setdefault(target, None)
        _there(target, _add_peer, record.cell)


def _add_peer(target: Cell, peer: Cell) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord):
        links_of(theirs).peers[peer] = None
    else:
        _there(peer, _take_exit, target, target.shown(), theirs.reason)


def unlink(record: ActorRecord, target: Cell) -> None:
    """Undo a link; an exit that is queued has no effect any more."""
    if record.extras is not None and record.extras.links is not None:
        record.extras.links.peers.pop(target, None)
        _there(target, _remove_peer, record.cell)


def _remove_peer(target: Cell, peer: Cell) -> None:
    theirs = _known_links(target)
    if theirs is not None:
        theirs.peers.pop(peer, None)


def _take_exit(peer: Cell, target: Cell, ref: ActorRef, reason: ExitReason) -> None:
    links = _known_links(peer)
    if links is not None and target in links.peers and links.peers[target] is None:
        notice = links.peers[target] = Exit(ref, reason)
        peer.notify(notice)
