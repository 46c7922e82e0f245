"""`ask_sync`: an ask that blocks its thread until the reply comes."""

from __future__ import annotations

import asyncio
from _thread import get_ident
from concurrent.futures import Future as ThreadFuture
from typing import Any

from greenroom._core.current import current_handoffs
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom.actor.messaging.question import Question, current_handoff, seconds_of, send_from_outside
from greenroom.clock import ManualClock
from greenroom.errors import AskTimeout, NotStarted, WaitsForItself
from greenroom.lanes import Lane

__all__ = ["wait_for_answer"]

_PATIENCE = 30.0
"""Seconds beyond its timeout that a thread waits for a system whose clock is turned by hand."""


def wait_for_answer(cell: Cell, message: object, timeout: float | None, lane: Lane) -> Any:
    """Send `message` and wait for the reply, on a thread that runs no loop."""
    seconds = seconds_of(timeout)
    loop: Loop = cell.loop
    mine = get_ident() == loop.runq.thread and not loop.closed
    if mine and loop.runq.rouse is None:
        raise NotStarted(loop.host.port.name, "ask_sync()")
    if mine or asyncio._get_running_loop() is not None:
        raise WaitsForItself("ask_sync() would hold up the loop of this thread: write `await ref.ask(...)` here")
    question = Question.__new__(Question)
    own = current_handoffs.get(get_ident()) if current_handoffs else None
    handoff = current_handoff(loop)
    question.set_up(loop, cell, None if handoff is None else handoff.cell, seconds)
    future: ThreadFuture[Any] = ThreadFuture()
    question.tell_future(future, None)
    # Time is the system's. But a system whose thread is held up does not come to see that it has passed, so this
    # thread looks at its own clock too; if the system's is turned by hand, only after a while.
    send_from_outside(loop, cell, question, message, lane)
    question._is_waited_for_by(handoff)
    if own is not None:
        own.waits(True)
        # An actor of another system is asked. If both go by one clock, that may advance while this thread waits.
        if handoff is None and loop.clock is own.cell.loop.clock:
            own.question = question
            own.tick_soon()
    patience = None if timeout is None else seconds + (_PATIENCE if isinstance(loop.clock, ManualClock) else 0.0)
    try:
        return future.result(patience)
    except TimeoutError:
        if not future.cancel():
            return future.result()  # it has come after all; or the timeout is the handler's own, and raised
        loop.inbound.call(None, question._give_up)
        raise AskTimeout(cell.shown(), seconds) from None
    finally:
        if own is not None:
            own.waits(False)
            own.question = None
