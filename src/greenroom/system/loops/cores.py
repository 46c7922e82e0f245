"""Keeping a thread on one processor, where the system can."""

from __future__ import annotations

import os

from greenroom.runtimelog import RuntimeLog

__all__ = ["keep_on_core"]

_log = RuntimeLog()


def keep_on_core(name: str, core: int) -> bool:
    """Keep the calling thread on a processor; where that cannot be, say so, and let it run on any.

    A thread that it starts from now on is kept there too, unless it says otherwise.
    """
    try:
        os.sched_setaffinity(0, {core})
    except (AttributeError, OSError) as exc:
        _log.warning("%s cannot be kept on processor %d, and runs on any: %s", name, core, exc)
        return False
    return True
