"""What a director knows of those that come between it and the actors: injected faults, and the records of a harness."""

from __future__ import annotations

from typing import Protocol

from greenroom._core.mailbox.cell import Cell
from greenroom.lanes import Lane

__all__ = ["FaultPort"]


class FaultPort(Protocol):
    """Whoever comes between."""

    def after_step(self, step: int) -> None:
        """A visit is over; or a virtual thread goes on, or a tick has decided what to take in."""
        ...

    def meets(self, cell: Cell) -> None:
        """A cell is made."""
        ...

    def holds(self, cell: Cell, message: object, sender: object, lane: Lane, by_timer: bool) -> bool:
        """A message is sent; True when it is on its way for a while."""
        ...

    def approaches(self, cell: Cell) -> None:
        """Somebody looks whether there is room in a mailbox."""
        ...

    def holds_notice(self, cell: Cell, notice: object) -> bool:
        """A notice is sent; True when it has to wait for messages that are on their way."""
        ...

    def handle(self, cell: Cell, message: object) -> object:
        """Have a message handled."""
        ...

    def hook_raised(self, cell: Cell, name: str, cause: BaseException) -> None:
        """A hook of an actor that ends, or is restarted, has raised."""
        ...

    def is_on_the_way(self, loop: object) -> bool:
        """Whether a message to an actor of `loop` is on its way."""
        ...

    def lets_handle(self, loop: object) -> bool:
        """Whether what is on its way to actors of `loop` can be handled without further steps."""
        ...

    def close(self) -> None:
        """The simulation is over."""
        ...
