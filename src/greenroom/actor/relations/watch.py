"""Watching: an actor that watches another is told, once, when that one has ended for good.

Both sides know of it: the watched one's body lists its watchers, and the watcher's `More` what it watches. When the
watched one ends, a notice takes its place in `watching` until the watcher comes to it; if by then it watches no
longer, or anew, the notice means nothing any more.

However many there are to tell, the loop is not held up: they are told some hundreds at a time, one batch a tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom._core.behavior import Verdict
from greenroom.actor.api.actor import Actor
from greenroom.actor.records.record import Body
from greenroom.actor.life.hooks import Procedure, actor_of, begin, call_hook, hand_to_actor
from greenroom.actor.messaging.signals import Terminated
from greenroom.actor.life.spec import blueprint_of
from greenroom.errors import ActorTerminated, DeathPact, WrongLoop
from greenroom.exits import ExitReason

__all__ = ["BATCH", "cry", "deliver", "require_able", "tell_watchers", "unwatch", "unwatch_all", "watch"]

BATCH = 512
"""How many are told of an end before others have their turn."""


class Watch:
    """One watch: what to send when it ends, if not None, and the notice, once that is on its way."""

    __slots__ = ("message", "notice")

    def __init__(self, message: object) -> None:
        self.message = message
        self.notice: Terminated | None = None


def require_able(body: Body, target: Cell) -> None:
    """Refuse, unless `body` can be told of `target`'s end: it lives, and on the same loop, for nothing is locked."""
    if body.cell.body is not body:
        raise ActorTerminated(body.cell.shown(), body.cell.body.reason)
    if target.loop is not body.cell.loop:
        raise WrongLoop(target.shown())


def watch(body: Body, target: Cell, message: object) -> None:
    """Let `body` be told when `target` has ended; at once if it has. Watching again changes only the message."""
    require_able(body, target)
    watching = body.extra().watching
    known = watching.get(target)
    if known is not None and known.notice is None:
        known.message = message
        return
    watching[target] = Watch(message)
    theirs = target.body
    if isinstance(theirs, Body):
        if theirs.watchers is None:
            theirs.watchers = {}
        theirs.watchers[body.cell] = None
    else:
        ref: Any = target.shown()
        _tell(body.cell, target, Terminated(ref, theirs.reason.cause, theirs.reason))


def unwatch(body: Body, target: Cell) -> None:
    """Watch no more; a notice that is already queued is not delivered."""
    more = body.more
    if more is not None and more.watching.pop(target, None) is not None:
        theirs = target.body
        if isinstance(theirs, Body) and theirs.watchers is not None:
            theirs.watchers.pop(body.cell, None)


def unwatch_all(body: Body) -> None:
    """`body` ends: nobody needs to tell it anything any more."""
    for target in list(body.extra().watching):
        unwatch(body, target)


def tell_watchers(watchers: dict[Cell, None], cell: Cell, ref: Any, reason: ExitReason) -> None:
    """`cell` has ended: queue a notice for each of its watchers."""
    notice = Terminated(ref, reason.cause, reason)
    cry(cell.loop, (partial(_tell, watcher, cell, notice) for watcher in watchers))


def cry(loop: Loop, tellings: Iterator[Callable[[], None]]) -> None:
    """Call them all: the first at once, the rest in later ticks."""
    for told, tell in enumerate(tellings, 1):
        tell()
        if told == BATCH:
            loop.inbound.call(None, lambda: cry(loop, tellings))
            return


def _tell(watcher: Cell, target: Cell, notice: Terminated) -> None:
    body: Any = watcher.body
    watch = body.more.watching.get(target) if isinstance(body, Body) and body.more is not None else None
    if watch is not None and watch.notice is None:  # else it has ceased to watch, or ended, before its turn came
        watch.notice = notice
        watcher.notify(notice)


def deliver(body: Body, notice: Terminated) -> Any:
    """Hand a queued notice to the actor, unless it has ceased to watch."""
    target = notice.ref._cell
    watching = body.extra().watching
    watch = watching.get(target)
    if watch is None or watch.notice is not notice:
        return None
    del watching[target]
    if watch.message is not None:
        body.cell.loop.visits.show(watch.message)
        return hand_to_actor(body, watch.message)
    return begin(_hand_over(body, notice))


def _hand_over(body: Body, notice: Terminated) -> Procedure:
    result = yield from call_hook(body, "on_terminated", notice, notice.ref, notice.cause)
    if not _is_taken(body, result):
        raise DeathPact(body.cell.ref, notice.ref, notice.reason) from notice.cause
    return result


def _is_taken(body: Body, result: object) -> bool:
    """Whether the actor has an `on_terminated`, or its `on_signal` said what comes next."""
    actor = actor_of(body)
    if isinstance(actor, Actor) and "on_terminated" in blueprint_of(type(actor)).hooks:
        return True
    return isinstance(result, Verdict) and not result.unhandled
