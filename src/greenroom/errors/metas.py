"""What a meta-process may not do, one class per operation, and what can go wrong around it."""

from __future__ import annotations

from greenroom.errors.base import GreenroomError

__all__ = [
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
    "NotAMeta",
]


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
