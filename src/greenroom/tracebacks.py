"""The user's part of a traceback.

Between two frames of a user's code there are up to ten of the runtime's, which say nothing about the mistake. They are
taken out where a failure is reported, and where it is raised to an asker; the frames that are left are the
original ones, with their locals. `GREENROOM_TRACEBACKS=full` in the environment leaves all of them in.

>>> def receive() -> None:
...     raise ValueError("bad")
>>> try:
...     receive()
... except ValueError as exc:
...     fold(exc)
...     print(place_of(exc.__traceback__)[2])
receive
"""

from __future__ import annotations

import os
from types import TracebackType

from greenroom.errors import GreenroomError, InternalError

SHOWS_ALL = os.environ.get("GREENROOM_TRACEBACKS", "").lower() == "full"
_OURS = "greenroom."
_BESIDE = ("asyncio.", "concurrent.futures.", "contextvars", "threading")
"""Modules whose frames belong to the runtime's if they stand directly below one of those."""


class ShownElsewhere(Exception):
    """The cause of an exception that was raised in another process: it has the traceback from there."""


def fold(exc: BaseException) -> None:
    """Take the runtime's frames out of the traceback of `exc`, and of the exceptions that it came from."""
    if SHOWS_ALL:
        return
    seen = {id(exc)}
    waiting = [exc]
    while waiting:
        one = waiting.pop()
        traceback = one.__traceback__
        if traceback is not None:
            folded = user_part(traceback, one)
            if folded is not traceback:
                set_traceback(one, folded)
        if one.__cause__ is None and one.__context__ is None and not isinstance(one, BaseExceptionGroup):
            continue
        inside = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        for other in (one.__cause__, one.__context__, *inside):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)


def user_part(traceback: TracebackType | None, exc: BaseException) -> TracebackType | None:
    """The traceback without the runtime's frames, but for those that raised `exc`, if that was not on purpose.

    An error of ours says in words what is wrong: where in the runtime it was raised is of no interest.
    """
    if isinstance(exc, InternalError):
        return traceback
    kept: list[TracebackType] = []
    # Those of the runtime since the last one that is kept.
    ours: list[TracebackType] = []
    one = traceback
    while one is not None:
        if _is_ours(one, bool(ours)):
            ours.append(one)
        else:
            kept.append(one)
            ours.clear()
        one = one.tb_next
    if ours and not isinstance(exc, GreenroomError) and not isinstance(exc.__cause__, ShownElsewhere):
        if not kept:
            return traceback
        kept += ours
    built: TracebackType | None = None
    for one in reversed(kept):
        built = one if one.tb_next is built else TracebackType(built, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return built


def drop_outer(exc: BaseException) -> None:
    """Take the runtime's frames off the outer end: `exc` is about to leave it for the caller's code."""
    if SHOWS_ALL or isinstance(exc, InternalError):
        return
    fold(exc)
    traceback = exc.__traceback__
    was_ours = False
    while traceback is not None and _is_ours(traceback, was_ours):
        was_ours = True
        traceback = traceback.tb_next
    set_traceback(exc, traceback)


def set_traceback(exc: BaseException, traceback: TracebackType | None) -> None:
    """Give `exc` another traceback, even if its class is frozen."""
    BaseException.with_traceback(exc, traceback)


def _is_ours(entry: TracebackType, follows_ours: bool) -> bool:
    name = entry.tb_frame.f_globals.get("__name__")
    if not isinstance(name, str):
        return False
    return name.startswith(_OURS) or (follows_ours and name.startswith(_BESIDE))


def place_of(traceback: TracebackType | None) -> tuple[str, int, str]:
    """Where it ends: the file, the line and the function; empty if there is none."""
    if traceback is None:
        return "", 0, ""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return code.co_filename, traceback.tb_lineno, code.co_name
