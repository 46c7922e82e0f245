"""What tests of the core share: hosts that write down what they are told, small mailboxes, and acts of handlers."""

import asyncio
import contextvars
import sys
import types
from collections.abc import Callable, Generator
from typing import Any

import pytest

from greenroom._core.behavior import BehaviorBase
from greenroom._core.build import COMPILED
from greenroom._core.limits import Limits
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.host import Host
from greenroom.lanes import Lane, MailboxConfig, Overflow


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


LANES = [Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA, Lane.LOG]


def bounded(capacity: int, overflow: Overflow = Overflow.REJECT, priority: Callable[[Any], Any] | None = None) -> Any:
    """Every lane holds `capacity` messages."""
    lanes: dict[Lane, int] = {lane: capacity for lane in LANES if lane is not Lane.DATA}
    return MailboxConfig(capacity=capacity, overflow=overflow, lanes=lanes, priority=priority)


LONG = 3600.0
ONE_AT_A_TIME = Limits(max_msgs_per_actor=1, max_actors_per_tick=1)
var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="unset")


def take_down(said: list[object], message: object) -> None:
    said.append(message)


def me() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


@types.coroutine
def bare_yield(value: object = None) -> Generator[Any, Any, Any]:
    return (yield value)


def never() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


class Straggler:
    """Garbage in a cycle: only the collector finds it, and its finalizer then does something."""

    def __init__(self, last_words: Callable[[], object]) -> None:
        self.me = self
        self.last_words = last_words

    def __del__(self) -> None:
        self.last_words()


collects_while_allocating = pytest.mark.skipif(
    COMPILED or sys.version_info >= (3, 12),
    reason="the collector runs in the middle of an allocation before 3.12 alone, and not when an array grows",
)
