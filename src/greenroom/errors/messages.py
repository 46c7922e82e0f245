"""What can go wrong with a message: sent, asked, answered, kept for later."""

from __future__ import annotations

from collections.abc import Callable

from greenroom.errors.base import GreenroomError, counted, in_words, rebuild

__all__ = [
    "ActorTerminated",
    "AlreadyReplied",
    "AskDeadlock",
    "AskTimeout",
    "BadArgument",
    "HandlerBroken",
    "InvalidDelay",
    "MailboxFull",
    "MessageDropped",
    "NoMessage",
    "NotAwaited",
    "NotSendable",
    "RefGone",
    "SendTimeout",
    "StashFull",
    "Unhandled",
]


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
            return rebuild, (type(self), self.args, {**self.__dict__, "message": None})
        return super().__reduce__()


class RefGone(GreenroomError):
    """A ref was unpickled where its system does not live."""

    def __init__(self, system: str, path: str, why: str = "that does not run in this process") -> None:
        super().__init__(f"the ref {path} belongs to the system {system!r}: {why}")
        self.system = system
        self.path = path
