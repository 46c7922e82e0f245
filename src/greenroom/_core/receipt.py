"""What may stand in a sender's slot instead of a ref.

A receipt travels with its message and is told how it went. It may withdraw the message while it is queued: a cancelled
timer's tick, for one. Subclasses add what they need; replies to asks are receipts too.
"""

from __future__ import annotations

from typing import Any

from greenroom._core.itemkinds import TOLD


class Receipt:
    """Goes with one message, and learns what became of it.

    Exactly one of the last three is called, unless the send was refused: then its sender has the exception.
    """

    # No fields: a subclass chooses its own, and whether the garbage collector has to follow them.
    __slots__ = ()

    def shown_sender(self) -> object:
        """The ref that is shown as the message's sender: None, unless a subclass knows better."""
        return None

    def origin(self) -> int:
        """How its message was sent: `TOLD`, `ASKED` or `TICKED`."""
        return TOLD

    def propagated(self) -> Any:
        """The context variables that its message brings along, as in `propagation`; None before they are taken down."""
        return None

    def propagate(self, values: Any) -> None:
        """Set what `propagated` returns, if the message can bring something along."""

    def live(self) -> bool:
        """Whether the message is still wanted; asked when its turn has come."""
        return True

    def settle(self, result: object) -> None:
        """The handler returned `result`."""

    def fail(self, cause: BaseException) -> None:
        """The handler raised `cause`."""

    def discard(self, why: str) -> None:
        """The message was not handled: withdrawn, dropped, or a dead letter."""


class Told(Receipt):
    """Stands for the sender of a message that was told, with the context variables that it brings along."""

    __slots__ = ("_sender", "_values")

    def __init__(self, sender: object, values: Any) -> None:
        self._sender = sender
        self._values = values

    def shown_sender(self) -> object:
        return self._sender

    def propagated(self) -> Any:
        return self._values


class Piped(Receipt):
    """Goes with what an actor has piped to itself: from itself, and yet the outcome of work it had begun."""

    __slots__ = ("_ref", "_values")

    def __init__(self, ref: object) -> None:
        self._ref = ref
        self._values: Any = None

    def shown_sender(self) -> object:
        return self._ref

    def propagated(self) -> Any:
        return self._values

    def propagate(self, values: Any) -> None:
        self._values = values


def is_from_itself(sender: object, own: object) -> bool:
    """Whether what stands in a sender's slot says that the actor with the ref `own` only talks to itself."""
    if isinstance(sender, Receipt):
        return type(sender) is not Piped and sender.shown_sender() is own
    return sender is own


class _Notice(Receipt):
    """The mark of a notice: a runtime message that needs no room and is counted in no ledger."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOTICE"


NOTICE = _Notice()
