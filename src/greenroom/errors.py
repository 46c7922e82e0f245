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

import re
from typing import TYPE_CHECKING, ClassVar

from greenroom.errortext import counted, in_words

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ActorTerminated",
    "AlreadyAttached",
    "AlreadyReplied",
    "AskDeadlock",
    "AskTimeout",
    "BadArgument",
    "ChildExists",
    "ChildRestarting",
    "ChildRunning",
    "ClockHeldUp",
    "ConfigError",
    "ConnectTimeout",
    "ConnectionClosed",
    "DeathPact",
    "DispatcherExists",
    "FailedElsewhere",
    "Fatal",
    "FrameError",
    "FrameTooLarge",
    "GreenroomError",
    "HandleHeld",
    "HandlerAbandoned",
    "HandlerBroken",
    "HandlerConflict",
    "HandshakeFailed",
    "HookError",
    "HttpError",
    "InjectedFault",
    "InternalError",
    "InvalidDelay",
    "InvalidName",
    "LinkBroken",
    "LoopBusy",
    "LoopStopped",
    "MailboxFull",
    "ManifestError",
    "MessageDropped",
    "MetaCannotAsk",
    "MetaCannotCompress",
    "MetaCannotLink",
    "MetaCannotMonitor",
    "MetaCannotReply",
    "MetaCannotSetLane",
    "MetaCannotSpawnActors",
    "MetaCannotWatch",
    "MetaEnded",
    "MetaNotSpawned",
    "MetaRefused",
    "MetaSpawnedBefore",
    "NameTaken",
    "NoMessage",
    "NoSuchChild",
    "NoThread",
    "NotAMeta",
    "NotAnActor",
    "NotAwaited",
    "NotInWorker",
    "NotSendable",
    "NotStarted",
    "PodGone",
    "PodRestartLimit",
    "ProgramFailed",
    "RefGone",
    "RestartLimit",
    "RingFull",
    "SendTimeout",
    "SettleTimeout",
    "SimulationEndless",
    "SimulationRefused",
    "SimulationStuck",
    "StartTimeout",
    "StashFull",
    "StaysAtHome",
    "SystemFailed",
    "SystemStopped",
    "TooManyActors",
    "TooManyChildren",
    "TooManyTimers",
    "TooManyWatches",
    "TroupeEnding",
    "TroupeFailed",
    "Unhandled",
    "UnknownDispatcher",
    "WaitTimeout",
    "WaitsForItself",
    "WatchError",
    "WireError",
    "WorkerLost",
    "WrongLoop",
    "WrongThread",
]


def _rebuild(cls: type[GreenroomError], args: tuple[object, ...], state: dict[str, object]) -> GreenroomError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class GreenroomError(Exception):
    """The base of every exception raised by Greenroom."""

    code: ClassVar[str] = "greenroom"
    """What logs and dashboards call it: the name of the class, as in `"mailbox_full"`, unless that says otherwise."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__ == __name__ and "code" not in vars(cls):
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__.removesuffix("Error")).lower()

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # `inspect.signature` finds none of Exception's

    def __reduce__(self) -> tuple[Callable[..., GreenroomError], tuple[object, ...]]:
        # The constructors take more than the text, so pickle's own `cls(*args)` would not do.
        return _rebuild, (type(self), self.args, self.__dict__)


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
    """All actors of a simulation wait, and nothing can end that; or those that are left do not end."""

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


class TooManyActors(GreenroomError):
    """The actor table is full."""

    def __init__(self, limit: int) -> None:
        alive = f"{counted(limit, 'actor')} {'is' if limit == 1 else 'are'} alive"
        super().__init__(f"{alive}, which is the limit; stop some, or raise `max_actors`")
        self.limit = limit


class WaitsForItself(GreenroomError):
    """Code that runs inside an actor waits for something that cannot happen before it has ended."""


class DeathPact(GreenroomError):
    """An actor watched another, which ended, and has no `on_terminated`."""

    def __init__(self, ref: object, ended: object, reason: object) -> None:
        super().__init__(
            f"{ref} watches {ended}, which has ended ({reason}), and has no `on_terminated`: define one, or unwatch"
        )
        self.ref = ref
        self.ended = ended
        self.reason = reason


class LinkBroken(GreenroomError):
    """A linked actor was killed; `.peer` says which."""

    def __init__(self, ref: object, peer: object, reason: object) -> None:
        super().__init__(
            f"{ref} is linked to {peer}, which has ended ({reason}): set `ctx.trap_exit` to be told of that instead, "
            "or `ctx.unlink(ref)`"
        )
        self.ref = ref
        self.peer = peer
        self.reason = reason


class RestartLimit(GreenroomError):
    """A supervisor's children ended too often, though none failed with an exception; `.child` is the last one."""

    def __init__(self, ref: object, child: object, reason: object, limit: int, period: float) -> None:
        super().__init__(
            f"{child} ended ({reason}) and {ref} may not restart it: more than {counted(limit, 'restart')} in "
            f"{period} s; "
            "find out why it ends, or raise `intensity`"
        )
        self.ref = ref
        self.child = child
        self.reason = reason
        self.limit = limit
        self.period = period


class ChildExists(GreenroomError):
    """The supervisor has a child of this name, perhaps a stopped one."""

    def __init__(self, ref: object, name: str) -> None:
        super().__init__(
            f"{ref} has a child {name!r} already: choose another name, `RestartChild({name!r})` if it is stopped, or "
            f"`DeleteChild({name!r})` first"
        )
        self.ref = ref
        self.name = name


class NoSuchChild(GreenroomError):
    """The supervisor has no child of this name."""

    def __init__(self, ref: object, name: object) -> None:
        super().__init__(f"{ref} has no child {name!r}: ask it `WhichChildren()`, or start one with `StartChild`")
        self.ref = ref
        self.name = name


class ChildRunning(GreenroomError):
    """The child is running, and this can be done to a stopped one only."""

    def __init__(self, ref: object, name: str) -> None:
        super().__init__(f"{name!r} of {ref} is running: stop it first, with `StopChild({name!r})`")
        self.ref = ref
        self.name = name


class ChildRestarting(GreenroomError):
    """The child is about to be restarted, and this can be done to a stopped one only."""

    def __init__(self, ref: object, name: str) -> None:
        super().__init__(
            f"{name!r} of {ref} is being restarted: wait for that, or give it up with `StopChild({name!r})`"
        )
        self.ref = ref
        self.name = name


class TooManyChildren(GreenroomError):
    """A dynamic supervisor has as many children as it may have."""

    def __init__(self, ref: object, limit: int) -> None:
        super().__init__(f"{ref} has {limit} children, which is its limit; stop some, or raise `max_children`")
        self.ref = ref
        self.limit = limit


class NotAnActor(GreenroomError, TypeError):
    """What was spawned is not, or does not make, an actor."""


class HandlerConflict(GreenroomError, TypeError):
    """Two methods of one class handle the same type."""

    def __init__(self, actor_class: type, message_type: type, first: str, second: str) -> None:
        super().__init__(
            f"{actor_class.__name__}.{first} and .{second} both handle {message_type.__name__}: leave it to one of them"
        )
        self.message_type = message_type


class NameTaken(GreenroomError):
    """A sibling has this name already."""

    def __init__(self, path: str) -> None:
        super().__init__(f"an actor named {path} is alive: choose another name, or wait until it has ended")
        self.path = path


class InvalidName(GreenroomError, ValueError):
    """An actor cannot have this name."""

    def __init__(self, name: object) -> None:
        super().__init__(
            f"{name!r} cannot be an actor's name: use a text that is not empty and has no '/' or '$' in it"
        )
        self.name = name


class HandlerAbandoned(GreenroomError):
    """A handler goes on that was given up: its actor has ended, or lives on without it, and it has no say any more."""

    def __init__(self, ref: object) -> None:
        super().__init__(f"this handler of {ref} was abandoned, because it did not end in time: return from it")
        self.ref = ref


class StartTimeout(GreenroomError, TimeoutError):
    """An actor was not ready for its first message in time: its start was cancelled."""

    def __init__(self, ref: object, timeout: float) -> None:
        super().__init__(
            f"{ref} had not started after {timeout:g} s, so its start was cancelled: see what its constructor, "
            "`pre_start` or `post_start` waits for, or give it longer with `SystemConfig(start_timeout=...)`"
        )
        self.ref = ref
        self.timeout = timeout


class WaitTimeout(GreenroomError, TimeoutError):
    """What a thread waited for in an actor's life did not come in time; the actor goes on."""

    def __init__(self, ref: object, what: str, timeout: float) -> None:
        super().__init__(f"{ref} had not {what} after {timeout:g} s: wait longer with `timeout=`, or look at its state")
        self.ref = ref
        self.timeout = timeout


class MailboxFull(GreenroomError):
    """The mailbox has no room and its policy is to refuse; `.message` is the message, given back."""

    def __init__(self, ref: object, message: object, lane: object, capacity: int) -> None:
        super().__init__(
            f"the mailbox of {ref} is full ({capacity} queued in {lane}); the message is in `.message`: "
            "wait for room with send() or send_sync(), give the mailbox more capacity, or choose an overflow policy "
            "that drops"
        )
        self.ref = ref
        self.message = message
        self.lane = lane
        self.capacity = capacity


class InvalidDelay(GreenroomError, ValueError):
    """A delay, interval or timeout is negative, infinite or not a number."""

    def __init__(self, what: str, value: object, why: str | None = None) -> None:
        super().__init__(
            f"{what}={value!r}: "
            + (
                why
                or "must be a finite number of seconds, zero or more, and at most 1e12; "
                "an interval must be at least 1e-6"
            )
        )
        self.value = value


class BadArgument(GreenroomError, TypeError, ValueError):
    """Something was called with an argument that it cannot take; the text says what it takes."""


class NotAwaited(GreenroomError, TypeError):
    """A handler or hook returned something that has to be awaited, and would not be."""

    def __init__(self, ref: object, awaitable: object) -> None:
        super().__init__(
            f"a handler of {ref} returned {awaitable!r}, which nobody awaits: make the handler `async def` and write "
            "`await` before it, or use `ctx.pipe_to_self` to go on with other messages meanwhile"
        )
        self.ref = ref


class ActorTerminated(GreenroomError):
    """The actor that should have answered has ended; `.reason` says how."""

    def __init__(self, ref: object, reason: object) -> None:
        super().__init__(f"{ref} has ended ({reason}) and will not answer; watch it to be told, or ask its successor")
        self.ref = ref
        self.reason = reason


class AskTimeout(GreenroomError, TimeoutError):
    """No reply came in time. The message may still be handled; its reply is then a dead letter."""

    def __init__(self, ref: object, timeout: float) -> None:
        super().__init__(
            f"no reply from {ref} within {timeout} s; give it a longer `timeout`, or see what keeps it busy"
        )
        self.ref = ref
        self.timeout = timeout


class AskDeadlock(GreenroomError):
    """Actors wait for one another's replies in a circle; `.cycle` names them."""

    def __init__(self, cycle: tuple[object, ...]) -> None:
        super().__init__(
            f"asks that wait for one another: {' -> '.join(map(str, cycle))}; none of them can answer while it waits: "
            "use `tell`, `ctx.pipe_to_self` or `ctx.defer_reply` in one of them"
        )
        self.cycle = cycle


class MessageDropped(GreenroomError):
    """The message of an ask was dropped by the mailbox's policy, by its drain, or cleared by a restart."""

    def __init__(self, ref: object, why: str = "") -> None:
        how = f"was {why}" if why.startswith("cleared") else "dropped the message, as its policy says"
        super().__init__(f"the mailbox of {ref} {how}: there will be no reply")
        self.ref = ref


class HandlerBroken(GreenroomError):
    """The actor asked goes on, but will not answer.

    Its handler was cancelled, or raised what is no `Exception` (the cause). Or the actor was restarted before it gave a
    reply that it had deferred.
    """

    def __init__(self, ref: object, cause: BaseException | None, happened: str | None = None) -> None:
        if happened is None:
            happened = f"its handler ended with {in_words(cause)}"  # type: ignore[arg-type]
        super().__init__(
            f"{ref} did not finish the message: {happened}; ask again, if handling the first half twice does no harm"
        )
        self.ref = ref


class Unhandled(GreenroomError):
    """The actor does not handle messages of this type."""

    def __init__(self, ref: object, message: object) -> None:
        super().__init__(
            f"{ref} does not handle {type(message).__name__}: add a method with @handles({type(message).__name__}), "
            "or send it to somebody else"
        )
        self.ref = ref
        self.message = message


class SendTimeout(GreenroomError, TimeoutError):
    """No room came free in time; `.message` is the message, given back."""

    def __init__(self, ref: object, message: object, timeout: float) -> None:
        super().__init__(f"no room in the mailbox of {ref} within {timeout} s; the message is in `.message`")
        self.ref = ref
        self.message = message
        self.timeout = timeout


class AlreadyReplied(GreenroomError):
    """A deferred reply was given twice."""

    def __init__(self) -> None:
        super().__init__("this reply has been given already: `send` or `fail` may be called once")


class NoMessage(GreenroomError):
    """Something that concerns the message in hand was called while none is in hand."""

    def __init__(self, ref: object, what: str) -> None:
        super().__init__(f"{what} of {ref} was called while it handles no message: call it from within a handler")
        self.ref = ref


class StashFull(GreenroomError):
    """The stash holds as many messages as it may. Nothing is lost: the message is still in hand."""

    def __init__(self, ref: object, capacity: int) -> None:
        super().__init__(
            f"the stash of {ref} holds {counted(capacity, 'message')}, which is its limit; unstash some, or give it "
            "more room with `ctx.stash_capacity`"
        )
        self.ref = ref
        self.capacity = capacity


class NotSendable(GreenroomError, TypeError):
    """A message, or what an actor is made from, cannot be sent to another process. The sender has it still: `message`.

    `why` says what prevents it.
    """

    def __init__(self, message: object, why: str, what: str | None = None) -> None:
        subject = f"a {type(message).__name__}" if what is None else what
        super().__init__(f"{subject} cannot be sent to another process: {why}")
        self.message = message
        self.why = why

    def __reduce__(self) -> tuple[Callable[..., GreenroomError], tuple[object, ...]]:
        import pickle

        try:
            pickle.loads(pickle.dumps(self.message))
        except BaseException:  # it stays where it is, wherever the error goes
            return _rebuild, (type(self), self.args, {**self.__dict__, "message": None})
        return super().__reduce__()


class RefGone(GreenroomError):
    """A ref was unpickled where its system does not live."""

    def __init__(self, system: str, path: str, why: str = "that does not run in this process") -> None:
        super().__init__(f"the ref {path} belongs to the system {system!r}: {why}")
        self.system = system
        self.path = path


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


class NotAMeta(GreenroomError, TypeError):
    """`spawn_meta` was given something that is no meta-process, or one whose callbacks cannot be called."""


class MetaNotSpawned(GreenroomError):
    """A meta-process was used before `ctx.spawn_meta` brought it up."""

    def __init__(self, meta: str, operation: str) -> None:
        super().__init__(f"{meta} has not been spawned: {operation} works from `init()` on; see `ctx.spawn_meta()`")
        self.operation = operation


class MetaSpawnedBefore(GreenroomError):
    """One object was spawned twice, or is to be restarted: it has only one life."""

    def __init__(self, meta: str) -> None:
        super().__init__(
            f"this {meta} has been spawned before: make a new one, or give `spawn_meta` a function that makes one, "
            "which it can call again for a restart"
        )
        self.meta = meta


class MetaRefused(GreenroomError):
    """The base of what a meta-process may not do; `.ref` is its alias, `.operation` what it tried."""

    def __init__(self, ref: object, operation: str, why: str) -> None:
        super().__init__(f"{ref} cannot {operation}: {why}")
        self.ref = ref
        self.operation = operation


class MetaCannotAsk(MetaRefused):
    """A meta-process asked. Neither its reader nor its handler can wait for an answer."""

    code = "meta_ask"

    def __init__(self, ref: object) -> None:
        super().__init__(ref, "ask", "it is a meta-process; `send()` a message, and let the other send one back")


class MetaCannotLink(MetaRefused):
    """A meta-process tried to link to an actor. Actors can link to it."""

    code = "meta_link"

    def __init__(self, ref: object) -> None:
        super().__init__(ref, "link", "it is a meta-process; the other can link to it: `ctx.link(alias)`")


class MetaCannotMonitor(MetaRefused):
    """A meta-process tried to monitor an actor. Actors can monitor it."""

    code = "meta_monitor"

    def __init__(self, ref: object) -> None:
        super().__init__(ref, "monitor", "it is a meta-process; let its parent monitor the other, and tell it")


class MetaCannotWatch(MetaRefused):
    """A meta-process tried to watch an actor. Actors can watch it."""

    code = "meta_watch"

    def __init__(self, ref: object) -> None:
        super().__init__(ref, "watch", "it is a meta-process; let its parent watch the other, and tell it")


class MetaCannotSpawnActors(MetaRefused):
    """A meta-process tried to spawn something that is no meta-process."""

    code = "meta_spawn"

    def __init__(self, ref: object, given: str) -> None:
        why = "a meta-process spawns only meta-processes; send its parent a message, and let that spawn the actor"
        super().__init__(ref, f"spawn {given}", why)


class MetaCannotReply(MetaRefused):
    """A meta-process put off a reply while no handler of it runs, so there is nothing to reply to."""

    code = "meta_reply"

    def __init__(self, ref: object, state: str) -> None:
        super().__init__(
            ref, "defer a reply", f"it is {state}; call `defer_reply()` in `handle_call()` or `handle_message()`"
        )
        self.state = state


class MetaCannotSetLane(MetaRefused):
    """A meta-process set its `send_lane` while no handler of it runs."""

    code = "meta_send_lane"

    def __init__(self, ref: object, state: str) -> None:
        why = f"it is {state}; set it in a handler, or give it to `MetaOptions(send_lane=...)`"
        super().__init__(ref, "set `send_lane`", why)
        self.state = state


class MetaCannotCompress(MetaRefused):
    """A meta-process set its `compression` while no handler of it runs."""

    code = "meta_compression"

    def __init__(self, ref: object, state: str) -> None:
        why = f"it is {state}; set it in a handler, or give it to `MetaOptions(compression=...)`"
        super().__init__(ref, "set `compression`", why)
        self.state = state


class MetaEnded(MetaRefused):
    """A meta-process that has ended tried to spawn another."""

    def __init__(self, ref: object) -> None:
        super().__init__(ref, "spawn", "it is terminated; spawn from `init()`, `start()` or a handler")


class ManifestError(ConfigError):
    """A troupe's class body makes no sense; the text begins with the line that is wrong."""

    def __init__(self, where: str, name: str, value: object, why: str) -> None:
        GreenroomError.__init__(self, f"{where}: {why}")
        self.where = where
        self.field = name
        self.value = value


class PodGone(GreenroomError):
    """The pod has ended and will not come back. The message was not sent: it is in `.message`.

    `__cause__` is what the pod failed with, if it has failed.
    """

    def __init__(self, pod: str, why: str, message: object = None) -> None:
        super().__init__(f"the pod {pod!r} is gone, and the message was not sent: {why}")
        self.pod = pod
        self.why = why
        self.message = message


class TroupeEnding(PodGone):
    """The pod is gone because its troupe ends. An actor whose handler lets this out has not failed."""


class ConnectTimeout(GreenroomError, TimeoutError):
    """The pod was not restarted in time. The message was not sent: it is in `.message`."""

    def __init__(self, pod: str, seconds: float, why: str, message: object = None) -> None:
        super().__init__(
            f"the pod {pod!r} was not back after {seconds:g} s, and the message was not sent: {why}. Try again, or "
            "give `connect_timeout` in KubeletConfig more time"
        )
        self.pod = pod
        self.message = message


class RingFull(MailboxFull):
    """The holder of a handle has as many messages waiting at the pod as it may. This one is in `.message`."""

    def __init__(
        self,
        pod: str,
        message: object,
        lane: object,
        capacity: int,
        why: str,
        remedy: str = "Send more slowly",
    ) -> None:
        GreenroomError.__init__(
            self,
            f"{counted(capacity, 'message')} of this handle wait at the pod {pod!r} in {lane}, and there is room for "
            f"no more: {why}. The message was not sent, and is in `.message`. {remedy}, or give the pod larger "
            "`buffers`",
        )
        self.ref = pod
        self.message = message
        self.lane = lane
        self.capacity = capacity


class HandleHeld(GreenroomError):
    """A service handle was used by a second thread."""

    def __init__(self, pod: str) -> None:
        super().__init__(
            f"this handle of the pod {pod!r} belongs to another thread, which has sent with it: a handle has one "
            "holder. Give this thread its own with `handle.clone()`"
        )
        self.pod = pod


class Fatal(GreenroomError):
    """Raise this in a pod's actor to say that a restart would be of no use: `raise Fatal("no such device")`."""


class PodRestartLimit(GreenroomError):
    """The pods of a kubelet were restarted too often."""

    def __init__(self, pod: str, limit: int, within: float, cause: BaseException | None) -> None:
        last = "it ended" if cause is None else f"it failed with {in_words(cause)}"
        super().__init__(
            f"the pod {pod!r} would be restart number {limit + 1} in {within:g} s ({last}). Find out why it ends, or "
            "raise `max_restarts` or `within` in KubeletConfig"
        )
        self.pod = pod


class TroupeFailed(SystemFailed):
    """A failure ended the troupe; `__cause__` is what it was, and `.pod` whose."""

    def __init__(self, name: str, cause: BaseException, pod: str | None = None) -> None:
        whose = "" if pod is None else f" of the pod {pod!r}"
        GreenroomError.__init__(self, f"the troupe {name!r} was ended by a failure{whose}: {in_words(cause)}")
        self.name = name
        self.pod = pod
