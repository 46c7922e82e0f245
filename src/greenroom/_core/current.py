"""What each thread is doing for an actor: a tick of a loop, or a hand-off.

So a send knows which actor it comes from, wherever it goes: to the same loop, another, or another system. A
thread finds its own hand-off by its number. This lies apart from `handoff`, because nearly everything may look here,
and only systems with such threads import the rest.
"""

from __future__ import annotations

from _thread import get_ident
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED

if TYPE_CHECKING:
    from greenroom._core.handoff.handoff import Handoff

current_handoffs: dict[int, Handoff] = {}
"""By the thread's number. Each entry is written and removed by that thread alone, and a dict bears that."""

current_reader: ContextVar[object] = ContextVar("greenroom_reader", default=None)
"""The alias of the meta-process whose `start()` runs here, on a thread of its own or as a task."""

_ticking: dict[int, Any] = {}
"""The run queue whose loop ticks on a thread, by the thread's number; compiled, it is a variable of each thread."""


def ticking_here() -> Any:
    """The run queue of the loop that ticks on this thread, or None."""
    if COMPILED:
        return ticking_object()
    return _ticking.get(get_ident())


def begin_tick(runq: object) -> object:
    """This thread ticks for `runq` from now on; what it ticked for before."""
    outer = ticking_here()
    if COMPILED:
        set_ticking(runq)
    else:
        _ticking[get_ident()] = runq
    return outer


def end_tick(outer: object) -> None:
    """A tick is over: this thread ticks for `outer` again, or for no loop if that is None."""
    if COMPILED:
        set_ticking(outer)
    elif outer is None:
        _ticking.pop(get_ident(), None)
    else:
        _ticking[get_ident()] = outer


def sender_here() -> Any:
    """The ref of the actor whose code runs on this thread, or None."""
    if COMPILED:
        if is_ticking():
            return current_ref_here()
    elif get_ident() in _ticking:
        return _ticking[get_ident()].current_ref
    handoff = current_handoffs.get(get_ident()) if current_handoffs else None
    return None if handoff is None else handoff.cell.ref
