"""What can go wrong where code runs: loops, threads, processes, and the wires between them."""

from __future__ import annotations

from greenroom.errors.base import GreenroomError

__all__ = [
    "AlreadyAttached",
    "ConnectionClosed",
    "DispatcherExists",
    "FailedElsewhere",
    "FrameError",
    "FrameTooLarge",
    "HandshakeFailed",
    "HookError",
    "HttpError",
    "LoopBusy",
    "LoopStopped",
    "NoThread",
    "NotInWorker",
    "ProgramFailed",
    "StaysAtHome",
    "TooManyTimers",
    "TooManyWatches",
    "UnknownDispatcher",
    "WatchError",
    "WireError",
    "WorkerLost",
    "WrongLoop",
    "WrongThread",
]


class TooManyTimers(GreenroomError):
    """As many timers are pending as the limit allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} timers are pending, which is the limit; cancel some, or raise `max_timers`")
        self.limit = limit


class TooManyWatches(GreenroomError):
    """As many file descriptors are watched as the limit allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} fds are watched, which is the limit; unwatch some, or raise `max_io_watches`")
        self.limit = limit


class WatchError(GreenroomError):
    """A file descriptor cannot be watched: closed, bad, of a kind the OS cannot wait for, or watched already."""

    def __init__(self, fd: object, why: str) -> None:
        super().__init__(f"cannot watch fd {fd!r}: {why}")
        self.fd = fd


class HookError(GreenroomError, TypeError):
    """An observer has no hook at all, or one that cannot take what it would be called with."""


class LoopBusy(GreenroomError):
    """A system did not come to do what another thread asked of it."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"the system {name!r} is not free: {why}")
        self.name = name


class LoopStopped(GreenroomError):
    """The loop has been closed and takes no more work."""


class AlreadyAttached(GreenroomError):
    """A loop or poller is attached to asyncio already."""


class WrongLoop(GreenroomError):
    """Something that belongs to one loop was handed to another."""

    def __init__(self, ref: object) -> None:
        super().__init__(f"{ref} lives on another loop: send it a message instead, or ask its own loop")
        self.ref = ref


class WrongThread(GreenroomError):
    """Something that belongs to a loop's own thread was called from another one."""

    def __init__(self, what: str, remedy: str = "from another thread, send a message instead") -> None:
        super().__init__(f"{what} belongs to its loop's own thread; {remedy}")


class UnknownDispatcher(GreenroomError, ValueError):
    """No dispatcher has this name."""

    def __init__(self, name: object, known: tuple[str, ...]) -> None:
        super().__init__(f"there is no dispatcher {name!r}; there are: {', '.join(known)}")
        self.name = name


class WorkerLost(GreenroomError):
    """The thread or process that ran an actor's code has ended under it. To supervisors that is a panic."""

    def again(self) -> WorkerLost:
        """Another of the same: where several are told, each has its own, for an exception remembers where it passed."""
        other = WorkerLost(*self.args)
        other.__cause__ = self.__cause__
        return other


class NoThread(GreenroomError, RuntimeError):
    """A thread is needed, and cannot be started. What asked for it has failed; later there may be one."""

    def __init__(self, user: str) -> None:
        super().__init__(
            f"no thread can be started for {user}: raise the limit of the machine (`ulimit -u`), or let actors share "
            'threads, as those of dispatcher="parallel" do'
        )
        self.user = user


class DispatcherExists(GreenroomError, ValueError):
    """A dispatcher of this name is there already."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a dispatcher {name!r} already: give this one another name")
        self.name = name


class StaysAtHome(GreenroomError, ValueError):
    """Something that is part of the runtime itself was to run by a dispatcher."""

    def __init__(self, what: str, dispatcher: str) -> None:
        super().__init__(
            f"{what} is the runtime's own and runs on the system's loop, not by the dispatcher {dispatcher!r}: "
            "spawn it without one; its children may have any"
        )
        self.dispatcher = dispatcher


class NotInWorker(GreenroomError):
    """Something was tried in a worker process that only the main process can do."""

    def __init__(self, ref: object, operation: str, why: str) -> None:
        super().__init__(f"{ref} is in a worker process, where {operation} does not work: {why}")
        self.ref = ref
        self.operation = operation


class WireError(GreenroomError):
    """Something is wrong with a connection to another process, or with what came over it."""

    code = "wire_error"


class HandshakeFailed(WireError):
    """The other end of a connection did not prove that it belongs to us."""


class FrameTooLarge(WireError, ValueError):
    """A frame is larger than a connection carries. The sender has it still."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"a frame of {size:,} bytes is larger than the limit of {limit:,}: send it in pieces, or raise the limit"
        )
        self.size = size
        self.limit = limit


class FrameError(WireError, ValueError):
    """What came over a connection is no frame, or what is to be sent cannot be one."""


class ConnectionClosed(WireError, ConnectionError):
    """A write was asked of a connection that is over, or is being closed; `.reason` says why."""

    def __init__(self, ref: object, reason: str) -> None:
        super().__init__(f"{ref} cannot write any more: {reason}")
        self.ref = ref
        self.reason = reason


class HttpError(GreenroomError):
    """Answers a request with an HTTP status: raise it, and declare it: `answers = (HttpError,)`."""

    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(f"{status} {text}".rstrip())
        self.status = status
        self.text = text


class ProgramFailed(GreenroomError):
    """A program that a `Port` ran with `check=True` ended with an error; `.status` is its exit status."""

    def __init__(self, command: str, status: int) -> None:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        super().__init__(f"{command} {how}")
        self.command = command
        self.status = status


class FailedElsewhere(GreenroomError):
    """An exception of another process, which cannot be brought here as it is. `.kind` names its class.

    It holds something that cannot be pickled: leave that out, in its `__reduce__`.
    """

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(
            f"{words} (a {kind} of another process, which cannot be pickled: define its class at the top of a module, "
            "or give it a `__reduce__`)"
        )
        self.kind = kind
        self.words = words
