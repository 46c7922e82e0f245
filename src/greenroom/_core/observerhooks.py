"""Observers' hooks: who wants to be told of what.

An event without an observer costs nothing: its attribute is False, and it is only looked at where the event happens.
An observer that raises is logged and taken off; it never disturbs an actor.

Observers come and go on any thread. The list of them is changed in place, under a lock, and the attributes are numbers:
a thread that looks meanwhile sees the old or the new, and nothing that has been freed.
"""

from __future__ import annotations

import inspect
from _thread import allocate_lock
from operator import is_

from greenroom.errors import HookError
from greenroom.exits import ends_system
from greenroom.runtimelog import RuntimeLog

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
    "pod_changed": ("pod", "status"),
}
"""The hooks an observer may have, and what each is called with."""


class ObserverHooks:
    """The observers of one loop. `Invariant:` an event's attribute is True iff some observer has that hook."""

    def __init__(self, slow_after: float = 0.1) -> None:
        self.slow_after = slow_after
        # One list for good.
        self._observers: list[object] = []
        self._lock = allocate_lock()
        self.actor_started = False
        self.actor_stopped = False
        self.actor_restarted = False
        self.escalated = False
        self.mailbox_full = False
        self.message_dropped = False
        self.dead_letter = False
        self.slow_handler = False
        self.stuck_handler = False
        self.pod_changed = False

    def add(self, observer: object) -> None:
        """Tell `observer` of every event it has a method for."""
        hooks = [name for name in EVENTS if callable(getattr(observer, name, None))]
        if not hooks:
            raise HookError(f"{observer!r} has none of the hooks {', '.join(EVENTS)}")
        for name in hooks:
            _require_signature(observer, name)
        self.trust(observer)

    def trust(self, observer: object) -> None:
        """Add an observer of our own, whose hooks are known to be in order."""
        with self._lock:
            if not self._has(observer):
                self._observers.append(observer)
        self._refresh()

    def remove(self, observer: object) -> None:
        """Tell `observer` nothing more."""
        with self._lock:
            self._observers[:] = [known for known in self._observers if known is not observer]
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
        # A copy, which is made in one step: without a GIL, another thread may take one off at any moment.
        return any(known is observer for known in list(self._observers))

    def _refresh(self) -> None:
        """See which events are wanted; again, if that has changed meanwhile: asking an observer runs its code."""
        while True:
            observers = list(self._observers)
            wanted = {name: any(callable(getattr(one, name, None)) for one in observers) for name in EVENTS}
            with self._lock:
                if len(observers) == len(self._observers) and all(map(is_, observers, self._observers)):
                    for name, is_wanted in wanted.items():
                        setattr(self, name, is_wanted)
                    return


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
