"""What the threads of a system run on: a thread with an event loop, perhaps kept on one processor."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future as ThreadFuture

from greenroom.errors import NoThread
from greenroom.runtimelog import RuntimeLog

_log = RuntimeLog()

_START_TIME = 30.0
"""Seconds that a thread has to start."""


def start_thread(
    name: str,
    owner: str,
    main: Callable[[ThreadFuture[None]], Coroutine[object, object, None]],
    after: Callable[[], object] = lambda: None,
) -> threading.Thread:
    """Start a thread that runs `main(ready)` in an event loop, and then calls `after`; return it when it is `ready`.

    Raises what `ready` is told, and what keeps the thread or asyncio from starting.
    """
    ready: ThreadFuture[None] = ThreadFuture()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(main(ready))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)  # asyncio could not start: it needs file descriptors
        finally:
            after()

    # A daemon, so that a handler that never returns does not keep the process alive.
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as exc:
        raise NoThread(owner) from exc
    ready.result(_START_TIME)
    return thread


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop when it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def keep_on_core(name: str, core: int) -> bool:
    """Keep the calling thread, and those it starts, on a processor; where that cannot be, log it and return False."""
    try:
        os.sched_setaffinity(0, {core})
    except (AttributeError, OSError) as exc:
        _log.warning("%s cannot be kept on processor %d, and runs on any: %s", name, core, exc)
        return False
    return True
