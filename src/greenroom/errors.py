"""Every exception of Greenroom, one per condition, all under `GreenroomError`.

Each class has a stable `.code` for logs and dashboards, and carries what a handler needs to go on: a refused
send gives the message back, a bad setting names its field.

>>> from greenroom.errors import ConfigError, GreenroomError
>>> error = ConfigError("capacity", 0, "must be at least 1")
>>> isinstance(error, GreenroomError), error.code, error.field
(True, 'config', 'capacity')
>>> print(error)
capacity=0: must be at least 1
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AlreadyAttached",
    "ConfigError",
    "GreenroomError",
    "HookError",
    "InternalError",
    "InvalidDelay",
    "LoopStopped",
    "MailboxFull",
    "TooManyActors",
    "TooManyTimers",
    "TooManyWatches",
    "WaitsForItself",
    "WatchError",
    "WrongLoop",
    "WrongThread",
]


def _rebuild(cls: type[GreenroomError], args: tuple[Any, ...], state: dict[str, Any]) -> GreenroomError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class GreenroomError(Exception):
    """The base of every exception raised by Greenroom."""

    code: ClassVar[str] = "greenroom"

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructors take more than the text, so pickle's own `cls(*args)` would not do.
        return _rebuild, (type(self), self.args, self.__dict__)


class ConfigError(GreenroomError, ValueError):
    """A setting has a value it cannot have; `.field` names it."""

    code = "config"

    def __init__(self, field: str, value: object, why: str) -> None:
        super().__init__(f"{field}={value!r}: {why}")
        self.field = field
        self.value = value


class MailboxFull(GreenroomError):
    """The mailbox has no room and its policy is to refuse; `.message` is the message, given back."""

    code = "mailbox_full"

    def __init__(self, ref: object, message: object, lane: object, capacity: int) -> None:
        super().__init__(
            f"the mailbox of {ref} is full ({capacity} queued in {lane}); the message is in `.message`: "
            "send it later, give the mailbox more capacity, or choose an overflow policy that drops"
        )
        self.ref = ref
        self.message = message
        self.lane = lane
        self.capacity = capacity


class TooManyActors(GreenroomError):
    """The actor table is full."""

    code = "too_many_actors"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} actors are alive, which is the limit; stop some, or raise `max_actors`")
        self.limit = limit


class TooManyTimers(GreenroomError):
    """As many timers are pending as the limit allows."""

    code = "too_many_timers"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} timers are pending, which is the limit; cancel some, or raise `max_timers`")
        self.limit = limit


class TooManyWatches(GreenroomError):
    """As many file descriptors are watched as the limit allows."""

    code = "too_many_watches"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} fds are watched, which is the limit; unwatch some, or raise `max_io_watches`")
        self.limit = limit


class WatchError(GreenroomError):
    """A file descriptor cannot be watched: closed, bad, of a kind the OS cannot wait for, or watched already."""

    code = "watch"

    def __init__(self, fd: object, why: str) -> None:
        super().__init__(f"cannot watch fd {fd!r}: {why}")
        self.fd = fd


class HookError(GreenroomError, TypeError):
    """An observer has no hook at all, or one that cannot take what it would be called with."""

    code = "hook"


class InvalidDelay(GreenroomError, ValueError):
    """A delay, interval or timeout is negative, infinite or not a number."""

    code = "invalid_delay"

    def __init__(self, what: str, value: object) -> None:
        super().__init__(
            f"{what}={value!r}: must be a finite number of seconds, zero or more, and at most 1e12; "
            "an interval must be at least 1e-6"
        )
        self.value = value


class LoopStopped(GreenroomError):
    """The loop has been closed and takes no more work."""

    code = "loop_stopped"


class AlreadyAttached(GreenroomError):
    """A loop or poller is attached to asyncio already."""

    code = "already_attached"


class WaitsForItself(GreenroomError):
    """Code that runs inside an actor waits for something that cannot happen before it has ended."""

    code = "waits_for_itself"


class WrongLoop(GreenroomError):
    """Something that belongs to one loop was handed to another."""

    code = "wrong_loop"

    def __init__(self, ref: object) -> None:
        super().__init__(f"{ref} lives on another loop: send it a message instead, or ask its own loop")
        self.ref = ref


class WrongThread(GreenroomError):
    """Something that belongs to a loop's own thread was called from another one."""

    code = "wrong_thread"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} belongs to its loop's own thread; from another thread, send a message instead")


class InternalError(GreenroomError):
    """A bug in Greenroom itself: please report it with the traceback and the actor it names."""

    code = "internal"
