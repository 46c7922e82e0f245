"""The part of a ref that messages pass through. `ActorRef` adds everything else, and the types."""

from __future__ import annotations

from typing import Any

from greenroom._core.build import COMPILED
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.messaging.asksync import wait_for_answer
from greenroom.actor.messaging.question import Question, put_question
from greenroom.lanes import Lane

__all__ = ["Address", "direct", "lend_methods"]

_DATA = Lane.DATA


class Address:
    """Stands for one actor, through all its restarts and after its end."""

    __slots__ = ("__weakref__", "_cell", "_name", "_parent")

    # Set by `Lifecycle`, which makes refs, and never again. There is no method for it: without C methods a ref needs no
    # table of them, and is 16 bytes smaller.
    _cell: Cell
    _name: str | tuple[str]
    """The name that was given, or the label of a nameless actor's kind, in a tuple."""
    _parent: Address | None

    def tell(self, message: object, *, lane: Lane = _DATA, sender: Address | None = None) -> None:
        """Send a message. Never blocks; from any thread.

        Inside a handler, the sender is the actor itself unless another is named. A full mailbox raises `MailboxFull`,
        or does what its overflow policy says; a dead actor's message is a dead letter.
        """
        self._cell.accept(message, sender, lane)

    def __lshift__(self, message: object) -> Address:
        self._cell.accept(message, None, _DATA)
        return self

    def ask(self, message: object, *, timeout: float | None = 5.0, lane: Lane = _DATA) -> Question:
        """Send a message, and return an awaitable of its reply."""
        return put_question(self._cell, message, timeout, lane)

    def ask_sync(self, message: object, *, timeout: float | None = 5.0, lane: Lane = _DATA) -> Any:
        """Send a message and block until its reply comes: for plain threads, refused on a loop's own."""
        return wait_for_answer(self._cell, message, timeout, lane)

    @property
    def id(self) -> int:
        """Its number: never given to another actor of this system."""
        return self._cell.id

    def __hash__(self) -> int:
        return self._cell.id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Address):
            return NotImplemented
        mine, theirs = self._cell, other._cell
        # Two cells of one id: a ref to an ended actor came back from a pickle.
        return mine is theirs or (mine.id == theirs.id and mine.runq is theirs.runq)


def direct(ref: Address, cell: Cell, name: str | tuple[str], parent: Address | None) -> None:
    """Let a ref that was made by somebody else than `Lifecycle` stand for the actor of `cell`."""
    ref._cell = cell
    ref._name = name
    ref._parent = parent


def lend_methods(subclass: type) -> None:
    """Give `subclass` the hot methods as its own.

    The interpreter has a shortcut for calls of a compiled method, but only for instances of the very class that has it;
    without this, a tell through a ref costs 15 % more instructions (callgrind, ping-pong).
    """
    if COMPILED:
        for name in ("tell", "ask"):
            setattr(subclass, name, own_method(subclass, vars(Address)[name]))
