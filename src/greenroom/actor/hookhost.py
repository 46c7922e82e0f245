"""Calls the hooks of actors on the spot: the part of a loop's host that beginnings and ends have in common.

A hook that returns nothing, as most do, is a plain call. Only when it returns something to await does the rest become a
procedure, as in `hooks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.actor import Actor
from greenroom.actor.life.hooks import hook_raised, rest_of_hook, rest_of_signal
from greenroom.actor.life.spec import class_info_of
from greenroom.actor.messagehost import MessageHost
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import STATES

if TYPE_CHECKING:
    from greenroom.actor.life.hooks import Procedure
    from greenroom.actor.life.spec import ActorClassInfo, ActorSpec
    from greenroom.actor.messaging.signals import Signal

__all__ = ["HookHost"]

HISTORY_KEPT = 1000
"""How many states of an actor its history keeps: those of some two hundred restarts."""


class HookHost(MessageHost):
    """Knows the state of actors, and calls their hooks."""

    __slots__ = ()

    def enter(self, record: ActorRecord, state: int) -> None:
        """Note that an actor is in `state` now."""
        record.state = state
        extras = record.extras
        if extras is None:
            return
        if extras.start_deadline is not None:
            extras.start_deadline.disarm(self.loop.timers)
            extras.start_deadline = None
        history = extras.history
        if history is not None:
            history.append(STATES[state])
            if len(history) > HISTORY_KEPT:
                del history[0]

    def class_info_now(self, cell: Cell, record: ActorRecord) -> ActorClassInfo | None:
        """The class of an actor as it is now, after any `become`; None if it is a function."""
        spec: ActorSpec = record.spec
        class_info = spec.class_info
        subject = cell.subject
        if class_info is not None and type(subject) is class_info.actor_class:
            return class_info
        return class_info_of(type(subject)) if isinstance(subject, Actor) else None

    def try_hook(
        self, cell: Cell, class_info: ActorClassInfo, name: str, signal: Signal, has_hook: bool
    ) -> Procedure | None:
        """As `call_hook`, for an actor that is ending: what the hook raises is logged."""
        try:
            return self.call_hook(cell, class_info, name, signal, has_hook)
        except BaseException as exc:
            hook_raised(cell.record, name, exc)
            return None

    def call_hook(
        self, cell: Cell, class_info: ActorClassInfo, name: str, signal: Signal, has_hook: bool
    ) -> Procedure | None:
        """Call a hook, if the actor has it, then `on_signal`; a procedure if something is left to be awaited."""
        actor: Any = cell.subject
        if has_hook:
            result = call_method(actor, name) if COMPILED else getattr(actor, name)()
            if result is not None:
                return rest_of_hook(cell.record, name, signal, result)
        if class_info.has_on_signal:
            result = actor.on_signal(signal)
            if result is not None:
                return rest_of_signal(cell.record, result)
        return None
