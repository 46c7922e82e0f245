"""Waits until nothing more happens in a system, even if some of its actors wait for the test.

An actor that asked a probe is busy until the test answers. `system.settle()` would wait for that actor, and so for the
test, for ever. Here such actors, and those that wait for one of them, count as settled.

Who waits for whom is looked at while nothing changes. If the system has several loops, their threads stand still for
that moment, between two ticks.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom._core.handoff.handoff import Handoff
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.waiting import TaskWait
from greenroom.actor.records.record import ActorRecord
from greenroom.errors import SettleTimeout
from greenroom.system.ending.report import Phase
from greenroom.testing.probing.inbox import ProbeActor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from greenroom._core.mailbox.cell import Cell
    from greenroom.system.system import ActorSystem

_POLL_INTERVAL = 0.005
"""Seconds between two checks of a system that does not settle."""

_STANDSTILL = 1.0
"""Seconds that all threads of a system have to stand still. One of them may wait for another, that does already."""


async def settle(system: ActorSystem, timeout: float, check: Callable[[], object] = lambda: None) -> None:
    """Return when nothing is queued or handled except what waits for the test. Raise `SettleTimeout` after `timeout`.

    `check` is called again and again meanwhile, and may raise. The system may run on another thread.
    """
    here = asyncio.get_running_loop()
    home = system._loops.home
    until = here.time() + timeout
    while system.phase != Phase.STOPPED:
        interval = min(_POLL_INTERVAL, max(0.0, until - here.time()))
        system._call("settle()", asyncio.get_running_loop)  # raises if the system has not started, or is held up
        try:
            await home.run(partial(system.settle, interval))
            return
        except SettleTimeout as exc:
            busy = exc.busy
        if not system._loops.threads or not system._loop.world.is_real:
            waits = system._call("settle()", lambda: _waits_for_test(system))
        else:
            waits = await home.run(partial(_all_wait_for_test, system))
        if waits:
            return
        check()
        if here.time() >= until:
            raise SettleTimeout(system.name, timeout, busy)


async def _all_wait_for_test(system: ActorSystem) -> bool:
    """As `_waits_for_test`, if the system has loops on several threads. On the home loop's thread."""
    go_on = threading.Event()
    standing: list[TaskWait] = []
    loops = system._loops.all()

    def stand_still(stands: TaskWait) -> None:
        stands.end(None)
        go_on.wait()

    try:
        for one in loops:
            there = one.poller.home()
            if there is not None and there is not asyncio.get_running_loop():
                stands = TaskWait()
                with suppress(RuntimeError):  # it has ended
                    there.call_soon_threadsafe(stand_still, stands)
                    standing.append(stands)
        async with asyncio.timeout(_STANDSTILL):
            for stands in standing:
                await stands.result()
        return all(one.poller.is_idle() for one in loops) and _waits_for_test(system)
    except TimeoutError:
        return False
    finally:
        go_on.set()


def _waits_for_test(system: ActorSystem) -> bool:
    """Whether nothing is queued, and every running handler waits for a probe. Call it on the system's thread."""
    cells: list[Cell] = [cell for one in system._loops.all() for cell in one.loop.table]
    for_test = {question for cell in cells for question in _open_questions(cell)}
    handled = [cell.task.sender for cell in cells if cell.task is not None]
    asked = {question for question in handled if isinstance(question, Question)} | for_test
    # Tasks do not await the question itself, but a future that gets its answer.
    behind = {question._future: question for question in asked if question._future is not None}
    return not any(
        cell.waiting_orders()
        or (cell.queued() if cell.task is None else not _waits_for_one_of(cell.task, for_test, behind))
        for cell in cells
    )


def _open_questions(cell: Cell) -> list[Question]:
    """The questions that the test has not answered yet, if this is a probe's actor."""
    record = cell.record
    if isinstance(cell.subject, ProbeActor) and isinstance(record, ActorRecord) and record.extras is not None:
        return list(record.extras.deferred)
    return []


def _waits_for_one_of(task: object, wanted: set[Question], behind: Mapping[object, Question]) -> bool:
    """Whether a handler awaits one of the questions `wanted`, directly or through other tasks and actors."""
    seen: list[object] = []
    waiting: list[object] = [task]
    while waiting:
        one = waiting.pop()
        one = behind.get(one, one)
        if one in seen:
            continue
        seen.append(one)
        if one in wanted:
            return True
        if isinstance(one, Question):
            if one.target.task is not None:
                waiting.append(one.target.task)
        elif isinstance(one, Handoff):
            waiting.extend(behind for behind in (one.question, one.task) if behind is not None)
        elif hasattr(one, "get_coro"):
            waiting.extend(_awaited_by(one))
        else:  # of `asyncio.gather`, perhaps
            waiting.extend(getattr(one, "_children", ()))
    return False


def _awaited_by(task: Any) -> list[object]:
    """What a task waits for: a question or a future, and the tasks inside asyncio's `wait_for`, `wait` and others."""
    awaited = getattr(task, "_fut_waiter", None)
    *_, inner = (None, *suspended(task.get_coro()))
    if inner is None or not str(inner.cr_frame.f_globals.get("__name__")).startswith("asyncio."):
        return [awaited]
    named = inner.cr_frame.f_locals
    # Local names: `fut` in `wait_for`, the set `fs` in `wait`, and `self._tasks` in a `TaskGroup`.
    return [awaited, named.get("fut"), *named.get("fs", ()), *getattr(named.get("self"), "_tasks", ())]


def suspended(coroutine: Any) -> Iterator[Any]:
    """A suspended coroutine and those that it awaits, the innermost last: those with a frame."""
    while coroutine is not None:
        if getattr(coroutine, "cr_frame", None) is not None:
            yield coroutine
        coroutine = getattr(coroutine, "cr_await", None)
