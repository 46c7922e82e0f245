"""What can go wrong with a whole system, and with a simulation of one."""

from __future__ import annotations

from greenroom.errors.base import GreenroomError, in_words

__all__ = [
    "ClockHeldUp",
    "ConfigError",
    "InjectedFault",
    "InternalError",
    "NotStarted",
    "SettleTimeout",
    "SimulationEndless",
    "SimulationRefused",
    "SimulationStuck",
    "SystemFailed",
    "SystemStopped",
]


class ConfigError(GreenroomError, ValueError):
    """A setting has a value it cannot have; `.field` names it."""

    def __init__(self, field: str, value: object, why: str) -> None:
        super().__init__(f"{field}={value!r}: {why}")
        self.field = field
        self.value = value


class NotStarted(GreenroomError):
    """The system is not running yet, or not any more."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(
            f"{what} needs a running system, and {name!r} is not running: use `async with`, `with` or `run()` first"
        )


class SystemStopped(GreenroomError):
    """The system, or the troupe, is stopping or has stopped: nothing can be spawned on it any more."""

    def __init__(self, name: str, what: str = "system", instead: str = "make a new ActorSystem") -> None:
        super().__init__(f"the {what} {name!r} is stopping or has stopped: {instead}")
        self.name = name


class SystemFailed(GreenroomError):
    """A failure ended the system; `__cause__` is what it was."""

    def __init__(self, name: str, cause: BaseException) -> None:
        super().__init__(f"the system {name!r} was ended by {in_words(cause)}")
        self.name = name


class SettleTimeout(GreenroomError, TimeoutError):
    """The system did not come to rest in time."""

    def __init__(self, name: str, timeout: float, busy: str) -> None:
        super().__init__(f"the system {name!r} was still busy after {timeout} s: {busy}")
        self.busy = busy


class ClockHeldUp(GreenroomError, TimeoutError):
    """A `ManualClock` cannot go on, because at one moment there is always more to do."""

    def __init__(self, now: float, patience: float, busy: list[str]) -> None:
        who = f"{', '.join(busy[:5])} {'is' if len(busy) == 1 else 'are'} busy" if busy else "timers have no delay"
        super().__init__(
            f"the clock could not go on from {now:g} for {patience} s, for there is always more to do at that time:"
            f" {who}"
        )


class SimulationRefused(GreenroomError):
    """Something was tried inside a simulation that could not be repeated: a thread, a socket, a process."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} inside a simulation: {remedy}")


class SimulationStuck(GreenroomError):
    """Everybody in a simulation waits, and nothing is left that could end it; or those who are left will not end."""

    def __init__(
        self,
        waiting: tuple[str, ...] = (),
        why: str = "everybody waits, no timer is pending, and so nothing will ever happen again",
    ) -> None:
        lines = "".join(f"\n  {one}" for one in waiting)
        super().__init__(f"{why}:{lines}")
        self.waiting = waiting


class SimulationEndless(GreenroomError):
    """A simulation did not come to its end within its steps."""

    def __init__(self, steps: int, last: str | None = None) -> None:
        ran = "" if last is None else f" ({last} ran last)"
        super().__init__(
            f"the program has not ended after {steps} steps{ran}: stop what repeats itself (a periodic timer, say)"
            " before it returns, or give the simulation more `max_steps`"
        )
        self.steps = steps
        self.last = last


class InjectedFault(GreenroomError):
    """What an actor fails with because a simulation was told to let it fail."""

    def __init__(self, actor: str, number: int) -> None:
        super().__init__(f"{actor} was made to fail at its message number {number}")
        self.number = number


class InternalError(GreenroomError):
    """A bug in Greenroom itself: please report it with the traceback and the actor it names."""
