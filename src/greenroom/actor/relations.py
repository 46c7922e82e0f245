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

from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from greenroom.actor.messaging.signals import Down, Exit, MonitorRef, Terminated
from greenroom.actor.records.record import ActorRecord
from greenroom.errors import ActorTerminated, BadArgument, WrongLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.exits import ExitReason

BATCH = 512
"""How many are told of an end before others have their turn."""

_numbers = count(1)


class Watch:
    """One watch: what to send when it ends, if not None, and the notice, once that is on its way."""

    __slots__ = ("message", "notice")

    def __init__(self, message: object) -> None:
        self.message = message
        self.notice: object = None


class Relations:
    __slots__ = ("linked", "monitored_by", "monitoring", "traps_exits", "watching")

    def __init__(self) -> None:
        # Invariant: those that have this actor's cell among their watchers, or whose Terminated is on its way
        self.watching: dict[Cell, Watch] = {}
        # With the notice that is on its way, if one is.
        self.monitoring: dict[MonitorRef, Down | None] = {}
        self.monitored_by: dict[MonitorRef, Cell] = {}
        # Invariant: two living actors have each other in here, or neither has; with the notice that is on its way
        self.linked: dict[Cell, Exit | None] = {}
        self.traps_exits = False

    def end_incarnation(self, record: ActorRecord) -> None:
        """End what belongs to one incarnation: its monitors."""
        for mref in list(self.monitoring):
            demonitor(record, mref, flush=True)

    def end(self, cell: Cell, ref: ActorRef, reason: ExitReason) -> None:
        if self.monitored_by or self.linked:
            notify_in_batches(cell.loop, self._notices(cell, ref, reason))

    def _notices(self, cell: Cell, ref: ActorRef, reason: ExitReason) -> Iterator[Callable[[], None]]:
        for mref, owner in self.monitored_by.items():
            yield partial(_there, owner, _take_down, mref, reason)
        for peer in self.linked:
            yield partial(_there, peer, _take_exit, cell, ref, reason)


def relations_of(record: ActorRecord) -> Relations:
    """The relations of an actor; made on first use."""
    extras = record.ensure_extras()
    if extras.relations is None:
        extras.relations = Relations()
    return extras.relations


def known_relations(record: object) -> Relations | None:
    """The relations of a living actor, if it ever had any."""
    extras = record.extras if isinstance(record, ActorRecord) else None
    return None if extras is None else extras.relations


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


def notify_in_batches(loop: Loop, tellings: Iterator[Callable[[], None]]) -> None:
    """Call them all: the first at once, the rest in later ticks."""
    for told, tell in enumerate(tellings, 1):
        tell()
        if told == BATCH:
            loop.inbound.post(None, lambda: notify_in_batches(loop, tellings))
            return


# -- watches


def watch(record: ActorRecord, target: Cell, message: object) -> None:
    """Send `record` a `Terminated` when `target` has ended, perhaps at once. Watching again changes the message."""
    _require_related(record, target)
    watching = relations_of(record).watching
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
    relations = known_relations(record)
    if relations is not None and relations.watching.pop(target, None) is not None:
        _there(target, _remove_watcher, record.cell)


def _remove_watcher(target: Cell, watcher: Cell) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord) and theirs.watchers is not None:
        theirs.watchers.pop(watcher, None)


def tell_watchers(watchers: dict[Cell, None], cell: Cell, ref: ActorRef, reason: ExitReason) -> None:
    """`cell` has ended: queue a notice for each of its watchers."""
    notice = Terminated(ref, reason.cause, reason)
    notify_in_batches(cell.loop, (partial(_there, watcher, _take_terminated, cell, notice) for watcher in watchers))


def _take_terminated(watcher: Cell, target: Cell, notice: Terminated) -> None:
    relations = known_relations(watcher.record)
    watch = None if relations is None else relations.watching.get(target)
    if watch is not None and watch.notice is None:  # else it has ceased to watch, or ended, before its turn came
        watch.notice = notice
        watcher.notify(notice)


# -- monitors


def monitor(record: ActorRecord, target: Cell) -> MonitorRef:
    """Send `record` a `Down` when `target` has ended, perhaps at once. Every call makes a monitor of its own."""
    _require_related(record, target)
    mref = MonitorRef(target.shown(), next(_numbers))  # type: ignore[arg-type]
    relations_of(record).monitoring[mref] = None
    _there(target, _add_monitor, mref, record.cell)
    return mref


def _add_monitor(target: Cell, mref: MonitorRef, owner: Cell) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord):
        relations_of(theirs).monitored_by[mref] = owner
    else:
        _there(owner, _take_down, mref, theirs.reason)


def demonitor(record: ActorRecord, mref: MonitorRef, flush: bool) -> bool:
    """End a monitor; whether there was one. Without `flush`, a `Down` that is queued still comes."""
    if not isinstance(mref, MonitorRef):
        raise BadArgument(f"demonitor() takes what monitor() returned, not {mref!r}")
    relations = known_relations(record)
    if relations is None or mref not in relations.monitoring:
        return False
    if relations.monitoring[mref] is None or flush:
        del relations.monitoring[mref]
    _there(mref.ref._cell, _remove_monitor, mref)
    return True


def _remove_monitor(target: Cell, mref: MonitorRef) -> None:
    theirs = known_relations(target.record)
    if theirs is not None:
        theirs.monitored_by.pop(mref, None)


def _take_down(owner: Cell, mref: MonitorRef, reason: ExitReason) -> None:
    relations = known_relations(owner.record)
    if relations is not None and mref in relations.monitoring:
        notice = relations.monitoring[mref] = Down(mref, mref.ref, reason)
        owner.notify(notice)


# -- links


def link(record: ActorRecord, target: Cell) -> None:
    """Link the two: when one ends abnormally the other fails, unless it traps exits."""
    _require_related(record, target)
    if target is not record.cell:
        relations_of(record).linked.setdefault(target, None)
        _there(target, _add_peer, record.cell)


def _add_peer(target: Cell, peer: Cell) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord):
        relations_of(theirs).linked[peer] = None
    else:
        _there(peer, _take_exit, target, target.shown(), theirs.reason)


def unlink(record: ActorRecord, target: Cell) -> None:
    """Undo a link; an exit that is queued has no effect any more."""
    relations = known_relations(record)
    if relations is not None:
        relations.linked.pop(target, None)
        _there(target, _remove_peer, record.cell)


def _remove_peer(target: Cell, peer: Cell) -> None:
    theirs = known_relations(target.record)
    if theirs is not None:
        theirs.linked.pop(peer, None)


def _take_exit(peer: Cell, target: Cell, ref: ActorRef, reason: ExitReason) -> None:
    relations = known_relations(peer.record)
    if relations is not None and target in relations.linked and relations.linked[target] is None:
        notice = relations.linked[target] = Exit(ref, reason)
        peer.notify(notice)
