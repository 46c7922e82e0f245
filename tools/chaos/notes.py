"""The messages of a history, and how they are sent.

A note says who sent it to whom on which lane, and when: its id has all of that, so the model can tell from the journal
alone what was to be handled where, and in which order.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from greenroom import ActorRef, Lane
from tools.chaos.journal import Journal

__all__ = ["Note", "OddNote", "Sender", "Target", "outcome_of"]


class Target(NamedTuple):
    """An actor, by the letter of its system and its ref."""

    system: str
    ref: ActorRef[Any, Any]

    @property
    def ident(self) -> str:
        """What the journal calls it."""
        return f"{self.system}{self.ref.id}"


@dataclass(frozen=True, slots=True)
class Note:
    """Do `action` with `args`."""

    id: str
    action: str
    args: tuple[Any, ...] = ()
    payload: Any = None


class OddNote(Note):
    """A note that cannot be shown, compared or counted."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise ValueError("it does not want to be shown")

    def __eq__(self, other: object) -> bool:
        raise ValueError("it does not want to be compared")

    def __hash__(self) -> int:
        raise ValueError("it does not want to be hashed")

    def __bool__(self) -> bool:
        raise ValueError("it does not want to be true or false")


class Sender:
    """One who sends: an actor, or a thread outside. What it sends is in the order of its ids."""

    def __init__(self, journal: Journal, name: str, kind: type[Note] = Note) -> None:
        self.journal = journal
        self.name = name
        self._kind = kind
        self._last = 0

    def note(self, to: Target | None, action: str, *args: Any, lane: Lane = Lane.DATA, payload: Any = None) -> Note:
        """A new note; without a receiver if a timer or a task is to send it."""
        # All processes of a machine share this clock, so numbers grow over the lives of an actor, too.
        self._last = max(time.monotonic_ns(), self._last + 1)
        to_whom = "?" if to is None else to.ident
        return self._kind(f"{self.name}>{to_whom}>{int(lane)}>{self._last}", action, args, payload)

    def tell(self, to: Target, note: Note, lane: Lane = Lane.DATA) -> None:
        """Send a note. What is refused is written down, and forgotten."""
        self.journal.write("sending", note.id, note.action)
        try:
            to.ref.tell(note, lane=lane)
        except BaseException as exc:
            self.journal.write("refused", note.id, type(exc).__name__)
            if not isinstance(exc, Exception):
                raise
        else:
            self.journal.write("sent", note.id)

    def ask_sync(self, to: Target, note: Note, timeout: float, lane: Lane = Lane.DATA) -> None:
        """Ask, and block until there is an outcome."""
        self.journal.write("asking", note.id, note.action, timeout)
        try:
            reply = to.ref.ask_sync(note, timeout=timeout, lane=lane)
        except BaseException as exc:
            self.journal.write("answer", note.id, *outcome_of(exc))
            if not isinstance(exc, Exception):
                raise
        else:
            self.journal.write("answer", note.id, "reply", _said(reply))

    def ask(self, to: Target, note: Note, timeout: float, lane: Lane = Lane.DATA) -> Coroutine[Any, Any, None]:
        """Ask now; await what this returns for the outcome."""
        self.journal.write("asking", note.id, note.action, timeout)
        try:
            question: Any = to.ref.ask(note, timeout=timeout, lane=lane)
        except Exception as exc:
            self.journal.write("answer", note.id, *outcome_of(exc))
            question = None
        return self._outcome(note, question)

    async def _outcome(self, note: Note, question: Any) -> None:
        if question is None:
            return
        try:
            reply = await question
        except BaseException as exc:
            self.journal.write("answer", note.id, *outcome_of(exc))
            if not isinstance(exc, Exception):
                raise
        else:
            self.journal.write("answer", note.id, "reply", _said(reply))


def _said(reply: Any) -> object:
    """Whose reply it is: what handlers return begins with the id of their note."""
    return reply[0] if isinstance(reply, tuple) and reply else repr(reply)[:80]


def outcome_of(exc: BaseException) -> tuple[str, str, str]:
    """An error, in words that fit in a line."""
    try:
        text = str(exc)[:200]
    except Exception:
        text = "(no words)"
    return "error", type(exc).__name__, text
