"""The parts of a record that upper rooms provide, as protocols: each says what the rooms between may ask of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from greenroom._core.mailbox.cell import Cell
from greenroom._core.timing.timers import Timers
from greenroom.exits import ExitReason

__all__ = [
    "BehaviorPart",
    "Cancellable",
    "EndDeadline",
    "ExecutorPort",
    "LifeWaiting",
    "OwedReply",
    "ReceiveTiming",
    "Watching",
]


class ExecutorPort(Protocol):
    """Where the code of an actor runs, if that is not on its loop's own thread; `Executor` is it."""

    @property
    def has_asyncio(self) -> bool:
        """Whether an asyncio loop runs where the code does."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether that is in another process."""
        ...

    def examine(self, message: object) -> None:
        """Refuse a message that cannot be brought there."""
        ...

    def enter(self, cell: Cell, record: Any) -> Awaitable[Any]:
        """Have the actor made, in another process."""
        ...

    def has_lost_actor(self) -> bool:
        """Whether the actor was in another process, and is not any more."""
        ...

    def let_go(self) -> None:
        """An actor that was here has ended for good."""
        ...

    def new_context(self) -> Any:
        """The context of an actor that is to be here."""
        ...

    def runs_on_loop(self, function: Callable[..., object]) -> bool:
        """Whether a function is called by the loop's own thread all the same."""
        ...

    def call(
        self, cell: Cell, function: Callable[..., object], arguments: tuple[object, ...], awaits: bool
    ) -> Awaitable[object]:
        """Have a user's function called."""
        ...

    def carry(self, cell: Cell, message: object, sender: object, lane: int) -> Coroutine[object, None, object]:
        """Have a message handled."""
        ...


class EndDeadline(Protocol):
    """What forces an actor to end in time; `Deadline` is it."""

    is_last: bool

    @property
    def cancelled(self) -> bool:
        """Whether something was cancelled for it."""
        ...

    def is_over(self) -> bool:
        """Whether what was cancelled for it has ended."""
        ...

    def disarm(self, timers: Timers) -> None:
        """The actor has ended in time."""
        ...


class LifeWaiting(Protocol):
    """Who waits for an actor to start, or to end; `LifeWaiter` is it."""

    @property
    def for_start(self) -> bool:
        """Whether it is the start that is waited for."""
        ...

    @property
    def ended(self) -> Callable[[Any, ExitReason], object]:
        """Called with this one, if the actor has ended."""
        ...

    def end(self, result: object, cause: BaseException | None = None) -> None:
        """What was waited for has happened, or cannot happen any more."""
        ...


class OwedReply(Protocol):
    """A reply that was put off; `Question` is it."""

    def end_with(self, reason: ExitReason) -> None:
        """The actor that was to answer has ended."""
        ...

    def break_off(self, cause: BaseException | None, happened: str | None) -> None:
        """The actor that was to answer will not, though it goes on."""
        ...


class BehaviorPart(Protocol):
    """Who handles an actor's messages, and its signals; `CurrentBehavior` is it."""

    @property
    def handler(self) -> Callable[..., object]:
        """Called with the subject and the message."""
        ...

    @property
    def subject(self) -> object:
        """The actor, or its context."""
        ...

    @property
    def on_signal(self) -> Callable[..., object] | None:
        """Called with the context and the signal."""
        ...

    @property
    def answers(self) -> tuple[type[Exception], ...]:
        """Exceptions that answer a message, and are no failure."""
        ...


class ReceiveTiming(Protocol):
    """The receive timeout; `ReceiveTimer` is it."""

    @property
    def seconds(self) -> float:
        """How long it is."""
        ...

    def begin(self) -> None:
        """Begin to wait."""
        ...

    def touch(self) -> None:
        """A message came."""
        ...

    def is_still_quiet(self) -> bool:
        """Whether no message came while the notice was queued."""
        ...

    def stop(self) -> None:
        """Ring no more."""
        ...


class Cancellable(Protocol):
    """Something that ends with its actor."""

    def cancel(self) -> object:
        """End it."""
        ...


class Watching(Protocol):
    """One watch of another actor; `Watch` is it."""

    message: object
    """What to send when that one ends, if not None."""
    notice: object
    """The `Terminated`, once that is on its way."""
