"""Exceptions put into words, and notes on them."""

from __future__ import annotations

from contextlib import suppress


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
