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

from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

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
    "DeathPact",
    "DispatcherExists",
    "FailedElsewhere",
    "FrameTooLarge",
    "GreenroomError",
    "HandlerAbandoned",
    "HandlerBroken",
    "HandlerConflict",
    "HandshakeFailed",
    "HookError",
    "InjectedFault",
    "InternalError",
    "InvalidDelay",
    "InvalidName",
    "LinkBroken",
    "LoopBusy",
    "LoopStopped",
    "MailboxFull",
    "MessageDropped",
    "NameTaken",
    "NoMessage",
    "NoSuchChild",
    "NoThread",
    "NotAnActor",
    "NotAwaited",
    "NotSendable",
    "NotStarted",
    "RefGone",
    "RestartLimit",
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


def in_words(cause: BaseException) -> str:
    """What an exception says of itself; a user's class may be unable to, and its failure must be told all the same.

    >>> in_words(ValueError("bad"))
    'ValueError: bad'
    >>> in_words(KeyboardInterrupt())
    'KeyboardInterrupt'
    """
    try:
        text = str(cause)
    except BaseException:
        text = "(its text cannot be shown)"
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


def counted(number: int | None, noun: str) -> str:
    """A number of things.

    >>> counted(1, "actor"), counted(2, "actor"), counted(0, "message")
    ('1 actor', '2 actors', '0 messages')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def add_note(cause: BaseException, note: str) -> None:
    """Say more about `cause`, once: the same exception may come by again. Not every exception lets itself be noted."""
    with suppress(Exception):
        if note not in getattr(cause, "__notes__", ()):
            cause.add_note(note)


def hand_on_notes(source: BaseException, target: BaseException) -> None:
    """Let an error that is told instead of `source` say what the runtime noted on that."""
    for note in getattr(source, "__notes__", ()):
        if isinstance(note, str) and note.startswith("Greenroom: "):
            add_note(target, note)


class GreenroomError(Exception):
    """The base of every exception raised by Greenroom."""

    code: ClassVar[str] = "greenroom"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)

    def __reduce__(self) -> tuple[Callable[..., GreenroomError], tuple[object, ...]]:
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
            "wait for room with send() or send_sync(), give the mailbox more capacity, or choose an overflow policy "
            "that drops"
        )
        self.ref = ref
        self.message = message
        self.lane = lane
        self.capacity = capacity


class TooManyActors(GreenroomError):
    """The actor table is full."""

    code = "too_many_actors"

    def __init__(self, limit: int) -> None:
        alive = f"{counted(limit, 'actor')} {'is' if limit == 1 else 'are'} alive"
        super().__init__(f"{alive}, which is the limit; stop some, or raise `max_actors`")
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


class LoopBusy(GreenroomError):
    """A system did not come to do what another thread asked of it."""

    code = "loop_busy"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"the system {name!r} is not free: {why}")
        self.name = name


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

    def __init__(self, what: str, remedy: str = "from another thread, send a message instead") -> None:
        super().__init__(f"{what} belongs to its loop's own thread; {remedy}")


class BadArgument(GreenroomError, TypeError, ValueError):
    """Something was called with an argument that it cannot take; the text says what it takes."""

    code = "bad_argument"


class NotAwaited(GreenroomError, TypeError):
    """A handler or hook returned something that has to be awaited, and nobody would."""

    code = "not_awaited"

    def __init__(self, ref: object, awaitable: object) -> None:
        super().__init__(
            f"a handler of {ref} returned {awaitable!r}, which nobody awaits: make the handler `async def` and write "
            "`await` before it, or use `ctx.pipe_to_self` to go on with other messages meanwhile"
        )
        self.ref = ref


class ActorTerminated(GreenroomError):
    """The actor that should have answered has ended; `.reason` says how."""

    code = "actor_terminated"

    def __init__(self, ref: object, reason: object) -> None:
        super().__init__(f"{ref} has ended ({reason}) and will not answer; watch it to be told, or ask its successor")
        self.ref = ref
        self.reason = reason


class AskTimeout(GreenroomError, TimeoutError):
    """No reply came in time. The message may still be handled; its reply is then a dead letter."""

    code = "ask_timeout"

    def __init__(self, ref: object, timeout: float) -> None:
        super().__init__(
            f"no reply from {ref} within {timeout} s; give it a longer `timeout`, or see what keeps it busy"
        )
        self.ref = ref
        self.timeout = timeout


class AskDeadlock(GreenroomError):
    """Actors wait for one another's replies in a circle; `.cycle` names them."""

    code = "ask_deadlock"

    def __init__(self, cycle: tuple[object, ...]) -> None:
        super().__init__(
            f"asks that wait for one another: {' -> '.join(map(str, cycle))}; none of them can answer while it waits: "
            "use `tell`, `ctx.pipe_to_self` or `ctx.defer_reply` in one of them"
        )
        self.cycle = cycle


class MessageDropped(GreenroomError):
    """The message of an ask was dropped by the mailbox's policy, by its drain, or cleared by a restart."""

    code = "message_dropped"

    def __init__(self, ref: object, why: str = "") -> None:
        how = f"was {why}" if why.startswith("cleared") else "dropped the message, as its policy says"
        super().__init__(f"the mailbox of {ref} {how}: there will be no reply")
        self.ref = ref


class HandlerBroken(GreenroomError):
    """The actor asked goes on, but will not answer.

    Its handler was cancelled, or raised what is no `Exception` (the cause). Or the actor was restarted before it gave a
    reply that it had deferred.
    """

    code = "handler_broken"

    def __init__(self, ref: object, cause: BaseException | None, happened: str | None = None) -> None:
        if happened is None:
            happened = f"its handler ended with {in_words(cause)}"  # type: ignore[arg-type]
        super().__init__(
            f"{ref} did not finish the message: {happened}; ask again, if handling the first half twice does no harm"
        )
        self.ref = ref


class Unhandled(GreenroomError):
    """The actor does not handle messages of this type."""

    code = "unhandled"

    def __init__(self, ref: object, message: object) -> None:
        super().__init__(
            f"{ref} does not handle {type(message).__name__}: add a method with @handles({type(message).__name__}), "
            "or send it to somebody else"
        )
        self.ref = ref
        self.message = message


class SendTimeout(GreenroomError, TimeoutError):
    """No room came free in time; `.message` is the message, given back."""

    code = "send_timeout"

    def __init__(self, ref: object, message: object, timeout: float) -> None:
        super().__init__(f"no room in the mailbox of {ref} within {timeout} s; the message is in `.message`")
        self.ref = ref
        self.message = message
        self.timeout = timeout


class AlreadyReplied(GreenroomError):
    """A deferred reply was given twice."""

    code = "already_replied"

    def __init__(self) -> None:
        super().__init__("this reply has been given already: `send` or `fail` may be called once")


class NoMessage(GreenroomError):
    """Something that concerns the message in hand was called while none is in hand."""

    code = "no_message"

    def __init__(self, ref: object, what: str) -> None:
        super().__init__(f"{what} of {ref} was called while it handles no message: call it from within a handler")
        self.ref = ref


class StashFull(GreenroomError):
    """The stash holds as many messages as it may. Nothing is lost: the message is still in hand."""

    code = "stash_full"

    def __init__(self, ref: object, capacity: int) -> None:
        super().__init__(
            f"the stash of {ref} holds {counted(capacity, 'message')}, which is its limit; unstash some, or give it "
            "more room with `ctx.stash_capacity`"
        )
        self.ref = ref
        self.capacity = capacity


class DeathPact(GreenroomError):
    """An actor watched another, which ended, and has no `on_terminated`."""

    code = "death_pact"

    def __init__(self, ref: object, ended: object, reason: object) -> None:
        super().__init__(
            f"{ref} watches {ended}, which has ended ({reason}), and has no `on_terminated`: define one, or unwatch"
        )
        self.ref = ref
        self.ended = ended
        self.reason = reason


class LinkBroken(GreenroomError):
    """A linked actor was killed; `.peer` says which."""

    code = "link_broken"

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

    code = "restart_limit"

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

    code = "child_exists"

    def __init__(self, ref: object, name: str) -> None:
        super().__init__(
            f"{ref} has a child {name!r} already: choose another name, `RestartChild({name!r})` if it is stopped, or "
            f"`DeleteChild({name!r})` first"
        )
        self.ref = ref
        self.name = name


class NoSuchChild(GreenroomError):
    """The supervisor has no child of this name."""

    code = "no_such_child"

    def __init__(self, ref: object, name: object) -> None:
        super().__init__(f"{ref} has no child {name!r}: ask it `WhichChildren()`, or start one with `StartChild`")
        self.ref = ref
        self.name = name


class ChildRunning(GreenroomError):
    """The child is running, and this can be done to a stopped one only."""

    code = "child_running"

    def __init__(self, ref: object, name: str) -> None:
        super().__init__(f"{name!r} of {ref} is running: stop it first, with `StopChild({name!r})`")
        self.ref = ref
        self.name = name


class ChildRestarting(GreenroomError):
    """The child is about to be restarted, and this can be done to a stopped one only."""

    code = "child_restarting"

    def __init__(self, ref: object, name: str) -> None:
        super().__init__(
            f"{name!r} of {ref} is being restarted: wait for that, or give it up with `StopChild({name!r})`"
        )
        self.ref = ref
        self.name = name


class TooManyChildren(GreenroomError):
    """A dynamic supervisor has as many children as it may have."""

    code = "too_many_children"

    def __init__(self, ref: object, limit: int) -> None:
        super().__init__(f"{ref} has {limit} children, which is its limit; stop some, or raise `max_children`")
        self.ref = ref
        self.limit = limit


class NotAnActor(GreenroomError, TypeError):
    """What was spawned is not, or does not make, an actor."""

    code = "not_an_actor"


class HandlerConflict(GreenroomError, TypeError):
    """Two methods of one class handle the same type."""

    code = "handler_conflict"

    def __init__(self, actor_class: type, message_type: type, first: str, second: str) -> None:
        super().__init__(
            f"{actor_class.__name__}.{first} and .{second} both handle {message_type.__name__}: leave it to one of them"
        )
        self.message_type = message_type


class NameTaken(GreenroomError):
    """A sibling has this name already."""

    code = "name_taken"

    def __init__(self, path: str) -> None:
        super().__init__(f"an actor named {path} is alive: choose another name, or wait until it has ended")
        self.path = path


class InvalidName(GreenroomError, ValueError):
    """An actor cannot have this name."""

    code = "invalid_name"

    def __init__(self, name: object) -> None:
        super().__init__(
            f"{name!r} cannot be an actor's name: use a text that is not empty and has no '/' or '$' in it"
        )
        self.name = name


class UnknownDispatcher(GreenroomError, ValueError):
    """No dispatcher has this name."""

    code = "unknown_dispatcher"

    def __init__(self, name: object, known: tuple[str, ...]) -> None:
        super().__init__(f"there is no dispatcher {name!r}; there are: {', '.join(known)}")
        self.name = name


class HandlerAbandoned(GreenroomError):
    """A handler goes on that was given up: its actor has ended, or lives on without it, and it has no say any more."""

    code = "handler_abandoned"

    def __init__(self, ref: object) -> None:
        super().__init__(f"this handler of {ref} was abandoned, because it did not end in time: return from it")
        self.ref = ref


class WorkerLost(GreenroomError):
    """The thread or process that ran an actor's code has ended under it. To supervisors that is a panic."""

    code = "worker_lost"

    def again(self) -> WorkerLost:
        """Another of the same: where several are told, each has its own, for an exception remembers where it passed."""
        other = WorkerLost(*self.args)
        other.__cause__ = self.__cause__
        return other


class NoThread(GreenroomError, RuntimeError):
    """A thread is needed, and cannot be started. What asked for it has failed; later there may be one."""

    code = "no_thread"

    def __init__(self, user: str) -> None:
        super().__init__(
            f"no thread can be started for {user}: raise the limit of the machine (`ulimit -u`), or let actors share "
            'threads, as those of dispatcher="parallel" do'
        )
        self.user = user


class DispatcherExists(GreenroomError, ValueError):
    """A dispatcher of this name is there already."""

    code = "dispatcher_exists"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a dispatcher {name!r} already: give this one another name")
        self.name = name


class StaysAtHome(GreenroomError, ValueError):
    """Something that is part of the runtime itself was to run by a dispatcher."""

    code = "stays_at_home"

    def __init__(self, what: str, dispatcher: str) -> None:
        super().__init__(
            f"{what} is the runtime's own and runs on the system's loop, not by the dispatcher {dispatcher!r}: "
            "spawn it without one; its children may have any"
        )
        self.dispatcher = dispatcher


class WireError(GreenroomError):
    """Something is wrong with a connection to another process, or with what came over it."""

    code = "wire_error"


class HandshakeFailed(WireError):
    """The other end of a connection did not prove that it belongs to us."""

    code = "handshake_failed"


class FrameTooLarge(WireError, ValueError):
    """A frame is larger than a connection carries. The sender has it still."""

    code = "frame_too_large"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"a frame of {size:,} bytes is larger than the limit of {limit:,}: send it in pieces, or raise the limit"
        )
        self.size = size
        self.limit = limit


class FailedElsewhere(GreenroomError):
    """An exception of another process, which cannot be brought here as it is. `.kind` names its class.

    It holds something that cannot be pickled: leave that out, in its `__reduce__`.
    """

    code = "failed_elsewhere"

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(
            f"{words} (a {kind} of another process, which cannot be pickled: define its class at the top of a module, "
            "or give it a `__reduce__`)"
        )
        self.kind = kind
        self.words = words


class NotSendable(GreenroomError, TypeError):
    """A message, or what an actor is made from, cannot be sent to another process. The sender has it still: `message`.

    `why` says what prevents it.
    """

    code = "not_sendable"

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


class NotStarted(GreenroomError):
    """The system is not running yet, or not any more."""

    code = "not_started"

    def __init__(self, name: str, what: str) -> None:
        super().__init__(
            f"{what} needs a running system, and {name!r} is not running: use `async with`, `with` or `run()` first"
        )


class SystemStopped(GreenroomError):
    """The system is stopping or has stopped: nothing can be spawned on it any more."""

    code = "system_stopped"

    def __init__(self, name: str) -> None:
        super().__init__(f"the system {name!r} is stopping or has stopped: make a new ActorSystem")
        self.name = name


class SystemFailed(GreenroomError):
    """A failure ended the system; `__cause__` is what it was."""

    code = "system_failed"

    def __init__(self, name: str, cause: BaseException) -> None:
        super().__init__(f"the system {name!r} was ended by {in_words(cause)}")
        self.name = name


class RefGone(GreenroomError):
    """A ref was unpickled where its system does not live."""

    code = "ref_gone"

    def __init__(self, system: str, path: str, why: str = "that does not run in this process") -> None:
        super().__init__(f"the ref {path} belongs to the system {system!r}: {why}")
        self.system = system
        self.path = path


class StartTimeout(GreenroomError, TimeoutError):
    """An actor was not ready for its first message in time: its start was cancelled."""

    code = "start_timeout"

    def __init__(self, ref: object, timeout: float) -> None:
        super().__init__(
            f"{ref} had not started after {timeout:g} s, so its start was cancelled: see what its constructor, "
            "`pre_start` or `post_start` waits for, or give it longer with `SystemConfig(start_timeout=...)`"
        )
        self.ref = ref
        self.timeout = timeout


class SettleTimeout(GreenroomError, TimeoutError):
    """The system did not come to rest in time."""

    code = "settle_timeout"

    def __init__(self, name: str, timeout: float, busy: str) -> None:
        super().__init__(f"the system {name!r} was still busy after {timeout} s: {busy}")
        self.busy = busy


class WaitTimeout(GreenroomError, TimeoutError):
    """What a thread waited for in an actor's life did not come in time; the actor goes on."""

    code = "wait_timeout"

    def __init__(self, ref: object, what: str, timeout: float) -> None:
        super().__init__(f"{ref} had not {what} after {timeout:g} s: wait longer with `timeout=`, or look at its state")
        self.ref = ref
        self.timeout = timeout


class ClockHeldUp(GreenroomError, TimeoutError):
    """A `ManualClock` cannot go on, because at one moment there is always more to do."""

    code = "clock_held_up"

    def __init__(self, now: float, patience: float, busy: list[str]) -> None:
        who = f"{', '.join(busy[:5])} {'is' if len(busy) == 1 else 'are'} busy" if busy else "timers have no delay"
        super().__init__(
            f"the clock could not go on from {now:g} for {patience} s, for there is always more to do at that time:"
            f" {who}"
        )


class SimulationRefused(GreenroomError):
    """Something was tried inside a simulation that could not be repeated: a thread, a socket, a process."""

    code = "simulation_refused"

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} inside a simulation: {remedy}")


class SimulationStuck(GreenroomError):
    """Everybody in a simulation waits, and nothing is left that could end it; or those who are left will not end."""

    code = "simulation_stuck"

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

    code = "simulation_endless"

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

    code = "injected_fault"

    def __init__(self, actor: str, number: int) -> None:
        super().__init__(f"{actor} was made to fail at its message number {number}")
        self.number = number


class InternalError(GreenroomError):
    """A bug in Greenroom itself: please report it with the traceback and the actor it names."""

    code = "internal"
