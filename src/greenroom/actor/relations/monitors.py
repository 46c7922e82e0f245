"""Monitors: each one tells its owner, once, that the monitored actor has ended.

As with watches, both sides know of it. A `Down` that is on its way stands for the monitor until its turn comes, so a
monitor that was given up in the meantime has no effect.

A monitor belongs to the incarnation that called `monitor()`: only that one has the `MonitorRef`. There is at most one
watch of an actor, and one link with it: those outlive a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.messaging.signals import Down, MonitorRef
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.relations.watch import require_watchable, there
from greenroom.errors import BadArgument
from greenroom.exits import ExitReason

__all__ = ["Monitors", "demonitor", "monitor", "monitors_of"]

_numbers = count(1)


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
            yield partial(_notify, owner, mref, reason)


def monitors_of(record: ActorRecord) -> Monitors:
    """The monitors of an actor; made on first use."""
    extras = record.ensure_extras()
    if extras.monitors is None:
        extras.monitors = Monitors()
    monitors: Monitors = extras.monitors
    return monitors


def monitor(record: ActorRecord, target: Cell) -> MonitorRef:
    """Let `record` get a `Down` when `target` has ended; at once if it has. Every call makes a monitor of its own."""
    require_watchable(record, target)
    mref = MonitorRef(target.shown(), next(_numbers))  # type: ignore[arg-type]
    monitors_of(record).own[mref] = None
    there(target, partial(_add_monitor, target, mref, record.cell))
    return mref


def _add_monitor(target: Cell, mref: MonitorRef, owner: Cell) -> None:
    theirs = target.record
    if isinstance(theirs, ActorRecord):
        monitors_of(theirs).monitored_by[mref] = owner
    else:
        _notify(owner, mref, theirs.reason)


def demonitor(record: ActorRecord, mref: MonitorRef, flush: bool) -> bool:
    """End a monitor; whether there was one. Without `flush`, a `Down` that is queued still comes."""
    if not isinstance(mref, MonitorRef):
        raise BadArgument(f"demonitor() takes what monitor() returned, not {mref!r}")
    monitors = _known_monitors(record)
    if monitors is None or mref not in monitors.own:
        return False
    if monitors.own[mref] is None or flush:
        del monitors.own[mref]
    target = mref.ref._cell
    there(target, partial(_remove_monitor, target, mref))
    return True


def _remove_monitor(target: Cell, mref: MonitorRef) -> None:
    theirs = _known_monitors(target.record)
    if theirs is not None:
        theirs.monitored_by.pop(mref, None)


def _known_monitors(record: object) -> Monitors | None:
    """The monitors of an actor that lives, and has some."""
    if not isinstance(record, ActorRecord) or record.extras is None:
        return None
    monitors: Monitors | None = record.extras.monitors
    return monitors


def _notify(owner: Cell, mref: MonitorRef, reason: ExitReason) -> None:
    there(owner, partial(_take_down, owner, mref, reason))


def _take_down(owner: Cell, mref: MonitorRef, reason: ExitReason) -> None:
    monitors = _known_monitors(owner.record)
    if monitors is not None and mref in monitors.own:
        notice = monitors.own[mref] = Down(mref, mref.ref, reason)
        owner.notify(notice)
