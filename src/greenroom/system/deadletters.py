"""Messages that could not be delivered: kept, counted, and told to subscribers.

>>> letters = DeadLetters(capacity=2)
>>> for number in range(3):
...     letters.publish(number, None, None, "stopped")
>>> letters.count, [letter.message for letter in letters.recent()], letters.by_reason
(3, [1, 2], {'stopped': 3})
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from threading import RLock
from typing import Any

from greenroom.actor.messaging.address import Address
from greenroom.clock import Clock, MonotonicClock
from greenroom.errors import BadArgument
from greenroom.exits import ends_system
from greenroom.frozen import Frozen
from greenroom.runtimelog import LogLimit, RuntimeLog

_log = RuntimeLog("greenroom.dead_letters")

LOGGED_PER_PERIOD = 10
"""Dead letters that are logged one by one in each period of a `LogLimit`."""


class DeadLetter(Frozen):
    """A message that was not handled: its sender, its recipient, the reason, and the time by the system's clock."""

    __slots__ = ("message", "sender", "recipient", "reason", "time")  # noqa: RUF023 - in the order of the arguments

    message: Any
    sender: Any
    recipient: Any
    reason: str
    time: float

    def __init__(self, message: object, sender: object, recipient: object, reason: str, time: float) -> None:
        self._set(message, sender, recipient, reason, time)


Subscription = list[Address | Callable[[DeadLetter], object]]
"""Of one: a list tells it from another of the same subscriber."""


class DeadLetters:
    """The dead letters of one system. Every method may be called from any thread."""

    def __init__(self, capacity: int = 1000, clock: Clock | None = None) -> None:
        self._clock: Clock = MonotonicClock() if clock is None else clock
        self._lock = RLock()
        # Invariant: all of these are written under _lock
        # Each as the fields of a `DeadLetter`: making one takes longer than all else here, and few are looked at.
        self._recent: deque[tuple[object, object, object, str, float]] = deque(maxlen=capacity)
        self._reasons: dict[str, int] = {}
        self._subscriptions: list[Subscription] = []
        self._count = 0
        self._limit = LogLimit(LOGGED_PER_PERIOD)

    @property
    def count(self) -> int:
        """How many there have been."""
        return self._count

    @property
    def by_reason(self) -> dict[str, int]:
        """How many there have been, by reason."""
        with self._lock:
            return dict(self._reasons)

    def recent(self) -> list[DeadLetter]:
        """The latest ones, oldest first."""
        with self._lock:
            recent = list(self._recent)
        return [DeadLetter(*fields) for fields in recent]

    def subscribe(self, subscriber: Address | Callable[[DeadLetter], object]) -> Callable[[], None]:
        """Send every new dead letter to `subscriber`, a ref or a function. Call the result to unsubscribe."""
        if not isinstance(subscriber, Address) and not callable(subscriber):
            raise BadArgument(f"dead letters can be told to a ref or a function, not to {subscriber!r}")
        subscription: Subscription = [subscriber]  # of its own, for one may subscribe twice
        with self._lock:
            self._subscriptions = [*self._subscriptions, subscription]
        return lambda: self._unsubscribe(subscription)

    def _unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = [known for known in self._subscriptions if known is not subscription]

    def publish(self, message: object, sender: object, recipient: object, reason: str) -> None:
        """Take in a message that was not handled."""
        now = self._clock.now()
        with self._lock:
            self._count += 1
            self._recent.append((message, sender, recipient, reason, now))
            self._reasons[reason] = self._reasons.get(reason, 0) + 1
            subscriptions = self._subscriptions
            before = self._logs(now)
        if before is not None:
            line = (
                f"dead letter: {type(message).__name__} from {_named(sender)} to {_named(recipient)}: {reason}{before}"
            )
            _log.info("%s", line, extra=_fields_of(recipient) or _fields_of(sender))
        # Subscribers are not told of a dead letter about a dead letter: that could go on for ever.
        if subscriptions and not isinstance(message, DeadLetter):
            self._tell(subscriptions, DeadLetter(message, sender, recipient, reason, now))

    def _tell(self, subscriptions: list[Subscription], letter: DeadLetter) -> None:
        for subscription in subscriptions:
            subscriber = subscription[0]
            try:
                if not isinstance(subscriber, Address):
                    subscriber(letter)
                elif subscriber._cell.closed:
                    self._unsubscribe(subscription)
                else:
                    subscriber.tell(letter)
            except BaseException as exc:
                if ends_system(exc):
                    raise
                told = "%r could not be told of a dead letter, and is not told of others"
                _log.exception(told, subscriber, extra=_fields_of(subscriber))
                self._unsubscribe(subscription)

    def _logs(self, now: float) -> str | None:
        """Whether to log one: the first few of a period are. Then, how many others there were before it."""
        if not _log.isEnabledFor(logging.INFO):
            return None
        limit = self._limit
        if not limit.has_room(now):
            limit.unlogged += 1
            return None
        more, limit.unlogged = limit.unlogged, 0
        return f" ({more} others before it were not logged)" if more else ""


def _named(whom: object) -> object:
    """An actor, or what is none: a thread, or a coroutine."""
    return "outside" if whom is None else whom


def _fields_of(whom: object) -> dict[str, object] | None:
    """What a record about it has in its fields; None if it is no actor."""
    if not isinstance(whom, Address):
        return None
    fields: dict[str, object] = whom._cell.loop.host.log_fields(whom._cell)
    return fields
