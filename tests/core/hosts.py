"""Hosts that write down what they are told."""

from greenroom._core.behavior import BehaviorBase
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.host import Host


class Returned(BehaviorBase):
    """What a handler returns for the script to write down."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Returned) else other)

    def __hash__(self) -> int:
        return hash(self.value)


class Recorder(Host):
    """Lets failed cells live, and writes down what it is told."""

    def __init__(self) -> None:
        self.failures: list[tuple[Cell, object, BaseException]] = []
        self.dead: list[object] = []
        self.behaviors: list[object] = []

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        self.failures.append((cell, message, cause))

    def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        self.dead.append(message)

    def behavior_returned(self, cell: Cell, behavior: object) -> None:
        self.behaviors.append(behavior)


class Letters(Host):
    """Remembers what never reached a handler."""

    def __init__(self) -> None:
        self.dead: list[object] = []
        self.dropped_messages: list[object] = []

    def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        self.dead.append(message)

    def dropped(self, cell: Cell, message: object, sender: object, lane: object) -> None:
        self.dropped_messages.append(message)
