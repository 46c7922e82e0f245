"""What can go wrong in the life of an actor: spawned, supervised, linked, waited for."""

from __future__ import annotations

from greenroom.errors.base import GreenroomError, counted

__all__ = [
    "ChildExists",
    "ChildRestarting",
    "ChildRunning",
    "DeathPact",
    "HandlerAbandoned",
    "HandlerConflict",
    "InvalidName",
    "LinkBroken",
    "NameTaken",
    "NoSuchChild",
    "NotAnActor",
    "RestartLimit",
    "StartTimeout",
    "TooManyActors",
    "TooManyChildren",
    "WaitTimeout",
    "WaitsForItself",
]


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
