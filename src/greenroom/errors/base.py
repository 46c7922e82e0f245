"""The base of all exceptions, and how they are put into words."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GreenroomError", "add_note", "counted", "hand_on_notes", "in_words", "rebuild"]


def rebuild(cls: type[GreenroomError], args: tuple[object, ...], state: dict[str, object]) -> GreenroomError:
    """What a pickled error is made with."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def in_words(cause: BaseException) -> str:
    """What an exception says of itself; a user's class may be unable to, and its failure must be told all the same.

    >>> in_words(ValueError("bad"))
    'ValueError: bad'
    >>> in_words(KeyboardInterrupt())
    'KeyboardInterrupt'
    """
    try:
        text = str(cause)
    except BaseException:
        text = "(its text cannot be shown)"
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


def counted(number: int | None, noun: str) -> str:
    """A number of things.

    >>> counted(1, "actor"), counted(2, "actor"), counted(0, "message")
    ('1 actor', '2 actors', '0 messages')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def add_note(cause: BaseException, note: str) -> None:
    """Say more about `cause`, once: the same exception may come by again. Not every exception lets itself be noted."""
    with suppress(Exception):
        if note not in getattr(cause, "__notes__", ()):
            cause.add_note(note)


def hand_on_notes(source: BaseException, target: BaseException) -> None:
    """Copy what the runtime noted on `source` to an error that is told instead of it."""
    for note in getattr(source, "__notes__", ()):
        if isinstance(note, str) and note.startswith("Greenroom: "):
            add_note(target, note)


class GreenroomError(Exception):
    """The base of every exception raised by Greenroom."""

    __module__ = "greenroom.errors"
    code: ClassVar[str] = "greenroom"
    """What logs and dashboards call it: the name of the class, as in `"mailbox_full"`, unless that says otherwise."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("greenroom.errors."):
            cls.__module__ = "greenroom.errors"  # where users import it from, and what tracebacks and pickles say
            if "code" not in vars(cls):
                cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__.removesuffix("Error")).lower()

    def __init__(self, *args: object) -> None:
        super().__init__(*args)

    def __reduce__(self) -> tuple[Callable[..., GreenroomError], tuple[object, ...]]:
        # The constructors take more than the text, so pickle's own `cls(*args)` would not do.
        return rebuild, (type(self), self.args, self.__dict__)
