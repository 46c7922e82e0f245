"""Where an actor was spawned, for when its start fails.

What is wrong with the arguments of a constructor is wrong in the line that calls `spawn`, and that has long returned.
So a spawn notes its caller's code and how far it is, which keeps no frame alive. The note stands in the cell in the
place of the actor, until there is one. It takes 60 ns, and 200 where a context spawns, so there is none when an actor
is made without arguments and another of its class has been: that line is right.
"""

from __future__ import annotations

import inspect
import linecache
import os
import reprlib
from collections.abc import Mapping
from contextlib import suppress
from types import CodeType
from typing import TYPE_CHECKING

from greenroom.actor.life.spec import CLASS, MAKER, OPTIONS
from greenroom.actor.records.restartstate import restart_state_of
from greenroom.errortext import add_note
from greenroom.tracebacks import set_traceback

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.life.spec import ActorSpec
    from greenroom.actor.records.record import ActorRecord

SpawnSite = tuple[CodeType, int]
"""The caller's code, and the offset of the instruction it has come to."""

_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_PACKAGE = __file__.rpartition(f"actor{os.sep}life")[0]


def note_spawn(cell: Cell, record: ActorRecord, cause: BaseException) -> bool:
    """Note in `cause`, with which a start failed, where the actor was spawned, and whether its arguments were wrong.

    Returns whether they were: then no other start would fare better.
    """
    restart_state = restart_state_of(record)
    if type(cell.subject) is tuple:  # nothing of the actor has been made
        restart_state.spawned_at = _describe(cell.subject)
    wrong = _wrong_arguments(record.spec, record.args, cause)
    if wrong and (cause.__traceback__ is None or _ends_in_runtime(cause)):
        set_traceback(cause, None)  # it was not raised in a line of the user's
    if restart_state.spawned_at is None:
        where = f"Greenroom: {wrong}" if wrong else ""
    else:
        where = f"Greenroom: {wrong or 'it was spawned'} here:\n{restart_state.spawned_at}"
    if where:
        add_note(cause, where)
    return bool(wrong)


def _describe(site: SpawnSite) -> str | None:
    """The line, as in a traceback; None if it is one of the runtime's."""
    code, offset = site
    if code.co_filename.startswith(_PACKAGE):
        return None
    line = code.co_firstlineno
    for begin, end, number in code.co_lines():
        if begin <= offset < end and number is not None:
            line = number
    source = linecache.getline(code.co_filename, line).strip()
    return f'  File "{code.co_filename}", line {line}, in {code.co_name}' + (f"\n    {source}" if source else "")


def _wrong_arguments(spec: ActorSpec, args: tuple[object, ...], cause: BaseException) -> str:
    """What was spawned, and what the constructor takes, if that does not fit; empty if it does."""
    if not isinstance(cause, TypeError) or spec.kind not in (CLASS, MAKER):
        return ""
    name = spec.label[0]
    signature = None
    with suppress(Exception):  # a builtin, or a compiled function that does not tell
        signature = inspect.signature(spec.factory)
    if signature is None:
        return ""
    try:
        signature.bind(*args, **spec.kwargs)
    except TypeError:
        spawned = f"{name}({_shown(args, spec.kwargs)})"
        return f"its constructor is {name}{signature}, but it was spawned as {spawned}{_taken(spec, args, signature)}"
    return ""


def _taken(spec: ActorSpec, args: tuple[object, ...], signature: inspect.Signature) -> str:
    """A hint, if a missing argument of the constructor was taken for an option of `spawn`."""
    with suppress(TypeError):
        given = signature.bind_partial(*args, **spec.kwargs).arguments
        names = [name for name, one in signature.parameters.items() if one.kind in _BY_KEYWORD and name in OPTIONS]
        taken = next((name for name in names if name not in given), None)
        if taken is not None:
            return f" (`{taken}` is an option of spawn: use `spawn(props({spec.label[0]}, {taken}=...))`)"
    return ""


def _shown(args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    return ", ".join([*map(_short, args), *(f"{name}={_short(value)}" for name, value in kwargs.items())])


def _short(value: object) -> str:
    try:
        return reprlib.repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _ends_in_runtime(cause: BaseException) -> bool:
    """Whether the traceback's last frame is one of the runtime's: the call itself failed."""
    traceback = cause.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    name = "" if traceback is None else traceback.tb_frame.f_globals.get("__name__", "")
    return isinstance(name, str) and name.startswith("greenroom.")
