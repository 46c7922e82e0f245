"""Observers' hooks: who wants to be told of what.

An event that nobody asked for costs nothing: its attribute is None, and it is only looked at where the event happens.
An observer that raises is logged and taken off; it never disturbs an actor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from greenroom.errors import HookError
from greenroom.exits import ends_system
from greenroom.runtimelog import RuntimeLog

__all__ = ["EVENTS", "ObserverHooks"]

_log = RuntimeLog()

EVENTS: dict[str, tuple[str, ...]] = {
    "actor_started": ("ref",),
    "actor_stopped": ("ref", "reason"),
    "actor_restarted": ("ref", "cause"),
    "escalated": ("ref", "cause"),
    "mailbox_full": ("ref", "message", "lane"),
    "message_dropped": ("ref", "message", "lane"),
    "dead_letter": ("ref", "message", "sender", "why"),
    "slow_handler": ("ref", "message", "seconds"),
    "stuck_handler": ("ref", "message", "seconds", "stack"),
}
"""The hooks an observer may have, and what each is called with."""


class ObserverHooks:
    """The observers of one loop. `Invariant:` an event's attribute is None iff no observer has that hook."""

    __slots__ = (*EVENTS, "_observers", "slow_after")

    def __init__(self, slow_after: float = 0.1) -> None:
        self.slow_after = slow_after
        self._observers: list[object] = []
        self.actor_started: Callable[..., None] | None = None
        self.actor_stopped: Callable[..., None] | None = None
        self.actor_restarted: Callable[..., None] | None = None
        self.escalated: Callable[..., None] | None = None
        self.mailbox_full: Callable[..., None] | None = None
        self.message_dropped: Callable[..., None] | None = None
        self.dead_letter: Callable[..., None] | None = None
        self.slow_handler: Callable[..., None] | None = None
        self.stuck_handler: Callable[..., None] | None = None

    def add(self, observer: object) -> None:
        """Tell `observer` of every event it has a method for."""
        hooks = [name for name in EVENTS if callable(getattr(observer, name, None))]
        if not hooks:
            raise HookError(f"{observer!r} has none of the hooks {', '.join(EVENTS)}")
        for name in hooks:
            _require_signature(observer, name)
        if not self._has(observer):
            self.trust(observer)

    def trust(self, observer: object) -> None:
        """Add an observer of our own, whose hooks are known to be in order."""
        self._observers.append(observer)
        self._refresh()

    def remove(self, observer: object) -> None:
        """Tell `observer` nothing more."""
        self._observers = [known for known in self._observers if known is not observer]
        self._refresh()

    def emit(self, event: str, *details: object) -> None:
        """Tell every observer that wants to know."""
        for observer in list(self._observers):
            hook = getattr(observer, event, None)
            if not callable(hook) or not self._has(observer):
                continue
            try:
                hook(*details)
            except BaseException as exc:
                if ends_system(exc):
                    raise
                _log.exception("observer %r raised in %s and is taken off", observer, event)
                self.remove(observer)

    def _has(self, observer: object) -> bool:
        return any(known is observer for known in self._observers)

    def _refresh(self) -> None:
        for name in EVENTS:
            wanted = any(callable(getattr(observer, name, None)) for observer in self._observers)
            setattr(self, name, self._emitter(name) if wanted else None)

    def _emitter(self, event: str) -> Callable[..., None]:
        return lambda *details: self.emit(event, *details)


def _require_signature(observer: object, name: str) -> None:
    try:
        signature = inspect.signature(getattr(observer, name))
    except ValueError:
        return  # a builtin that does not tell
    try:
        signature.bind(*EVENTS[name])
    except TypeError:
        wanted = ", ".join(EVENTS[name])
        raise HookError(f"{type(observer).__name__}.{name}{signature} must accept ({wanted})") from None
