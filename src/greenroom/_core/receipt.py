"""What may stand in a sender's slot instead of a ref.

A receipt travels with its message and is told how it went. It may withdraw the message while it is queued: a cancelled
timer's tick, for one. Subclasses add what they need; replies to asks are receipts too.
"""

from __future__ import annotations

from greenroom._core.itemkinds import TOLD

__all__ = ["NOTICE", "Receipt"]


class Receipt:
    """Goes with one message, and learns what became of it.

    Exactly one of the last three is called, unless the send was refused: then its sender has the exception.
    """

    # No fields: a subclass chooses its own, and whether the garbage collector has to follow them.
    __slots__ = ()

    def shown_sender(self) -> object:
        """Who is shown as the message's sender: nobody, unless a subclass knows better."""
        return None

    def origin(self) -> int:
        """How its message was sent: `TOLD`, `ASKED` or `TICKED`."""
        return TOLD

    def live(self) -> bool:
        """Whether the message is still wanted; asked when its turn has come."""
        return True

    def settle(self, result: object) -> None:
        """The handler returned `result`."""

    def fail(self, cause: BaseException) -> None:
        """The handler raised `cause`."""

    def discard(self, why: str) -> None:
        """The message was not handled: withdrawn, dropped, or a dead letter."""


class _Notice(Receipt):
    """The mark of a notice: a runtime message that needs no room and is counted in no ledger."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOTICE"


NOTICE = _Notice()
