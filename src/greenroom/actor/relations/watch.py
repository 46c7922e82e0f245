"""Watching: an actor that watches another is told, once, when that one has ended for good.

Both sides know of it: the watched one's body lists its watchers, and the watcher's `Extras` what it watches. When the
watched one ends, a notice takes its place in `watching` until the watcher comes to it; if by then it watches no
longer, or anew, the notice means nothing any more.

However many there are to tell, the loop is not held up: they are told some hundreds at a time, one batch a tick.

The two may live on different loops. Then each side is changed on its own thread, and what one loop brings another stays
in order: so a watch comes before the end of whoever watches, and an end behind what was sent before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom.actor.messaging.signals import Terminated
from greenroom.actor.records.record import ActorRecord
from greenroom.errors import ActorTerminated, WrongLoop
from greenroom.exits import ExitReason

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef

__all__ = [
    "BATCH",
    "notify_in_batches",
    "require_watchable",
    "tell_watchers",
    "there",
    "unwatch",
    "unwatch_all",
    "watch",
]

BATCH = 512
"""How many are told of an end before others have their turn."""


class Watch:
    """One watch: what to send when it ends, if not None, and the notice, once that is on its way."""

    __slots__ = ("message", "notice")

    def __init__(self, message: object) -> None:
        self.message = message
        self.notice: object = None


def require_watchable(record: ActorRecord, target: Cell) -> None:
    """Refuse, unless `record` can be told of `target`'s end: it lives, and in the same system."""
    if record.cell.record is not record:
        raise ActorTerminated(record.cell.shown(), record.cell.record.reason)
    if target.loop is not record.cell.loop and target.loop.host.port is not record.cell.loop.host.port:
        raise WrongLoop(target.shown())


def there(cell: Cell, action: Callable[[], object]) -> None:
    """Do something for the actor of `cell` on its own thread: at once, if it is this one or that has ended."""
    if not cell.is_foreign() or not cell.loop.inbound.bring(None, action):
        action()


def watch(record: ActorRecord, target: Cell, message: object) -> None:
    """Let `record` be told when `target` has ended; at once if it has. Watching again changes only the message."""
    require_watchable(record, target)
    watching = record.ensure_extras().watching
    known = watching.get(target)
    if known is not None and known.notice is None:
        known.message = message
        return
    watching[target] = Watch(message)
    there(target, partial(_add_watcher, target, record.cell))


def _add_watcher(target: Cell, watcher: Cell) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord):
        if theirs.watchers is None:
            theirs.watchers = {}
        theirs.watchers[watcher] = None
    else:
        ref: ActorRef = target.shown()  # type: ignore[assignment]
        _tell(watcher, target, Terminated(ref, theirs.reason.cause, theirs.reason))


def unwatch(record: ActorRecord, target: Cell) -> None:
    """Watch no more; a notice that is already queued is not delivered."""
    extras = record.extras
    if extras is not None and extras.watching.pop(target, None) is not None:
        there(target, partial(_remove_watcher, target, record.cell))


def _remove_watcher(target: Cell, watcher: Cell) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord) and theirs.watchers is not None:
        theirs.watchers.pop(watcher, None)


def unwatch_all(record: ActorRecord) -> None:
    """`record` ends: nobody needs to tell it anything any more."""
    for target in list(record.ensure_extras().watching):
        unwatch(record, target)


def tell_watchers(watchers: dict[Cell, None], cell: Cell, ref: ActorRef, reason: ExitReason) -> None:
    """`cell` has ended: queue a notice for each of its watchers."""
    notice = Terminated(ref, reason.cause, reason)
    notify_in_batches(cell.loop, (partial(_tell, watcher, cell, notice) for watcher in watchers))


def notify_in_batches(loop: Loop, tellings: Iterator[Callable[[], None]]) -> None:
    """Call them all: the first at once, the rest in later ticks."""
    for told, tell in enumerate(tellings, 1):
        tell()
        if told == BATCH:
            loop.inbound.call(None, lambda: notify_in_batches(loop, tellings))
            return


def _tell(watcher: Cell, target: Cell, notice: Terminated) -> None:
    there(watcher, partial(_take_notice, watcher, target, notice))


def _take_notice(watcher: Cell, target: Cell, notice: Terminated) -> None:
    record = watcher.record
    watch = (
        record.extras.watching.get(target) if isinstance(record, ActorRecord) and record.extras is not None else None
    )
    if watch is not None and watch.notice is None:  # else it has ceased to watch, or ended, before its turn came
        watch.notice = notice
        watcher.notify(notice)
