"""How an actor begins, and how it becomes something else."""

from __future__ import annotations

from functools import partial
from inspect import isawaitable
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behaviors import Behavior, Behaviors, Failed, Receive, Setup, Supervised
from greenroom.actor.records.record import Body, More
from greenroom.actor.life.hooks import HANDLE, SIGNAL, Procedure, actor_of, call, call_hook, do, method_of, place_of
from greenroom.actor.messaging.signals import PostRestart, PostStart, PreStart
from greenroom.actor.life.spec import BEHAVIOR, HANDLER, Settings, blueprint_of, positional_arguments
from greenroom.errors import BadArgument, NotAnActor
from greenroom.exits import NORMAL

if TYPE_CHECKING:
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["Part", "become", "become_next", "cares_for_children", "install", "start", "tell_started", "unbecome"]


class Part(NamedTuple):
    """What an actor is at present: who handles its messages, and its signals."""

    handler: Any
    subject: Any
    on_signal: Any


def start(life: Lifecycle, cell: Cell, body: Body) -> Procedure:
    """Make the actor, and run its hooks until it is ready for its first message."""
    spec = body.spec
    place = place_of(body)
    if place is not None and place.is_apart:
        _stand_in(body, *(yield place.enter(cell, body)))
    elif spec.kind == HANDLER:
        play(body, Part(spec.factory, body, None))
    elif spec.kind == BEHAVIOR:
        play(body, (yield from call(body, part_of, body, spec.factory)))
    else:
        made = yield from call(body, partial(spec.factory, *spec.args, **spec.kwargs))
        if isawaitable(made):
            _close(made)
            raise NotAnActor(
                f"{spec.label[0]}(...) is async: an actor is made at once; what takes time goes into `pre_start`"
            )
        install(body, made)
    yield from call_hook(body, "pre_start", PreStart())
    if body.more is not None and body.more.has_run():
        yield from _take_up(body, body.more.standing)
    yield from call_hook(body, "post_start", PostStart())
    life.begin_to_run(cell, body)


def _stand_in(body: Body, actor_class: Any, supervision: Any) -> None:
    """The actor has been made in another process: let something here stand for it, so that its hooks are known."""
    if supervision is not None:
        body.extra().by_behavior = Settings(supervision, body.settings().env)
    if actor_class is None:
        play(body, Part(HANDLE, body, SIGNAL))
    else:
        body.cell.handler = HANDLE
        body.cell.subject = Actor.__new__(_harmless(actor_class))


def _harmless(actor_class: Any) -> Any:
    """A class whose instances can stand for an actor's: a finalizer would find nothing of what it is for."""
    if not hasattr(actor_class, "__del__"):
        return actor_class
    return type(actor_class.__name__, (actor_class,), {"__del__": lambda self: None})


def _take_up(body: Body, standing: Any) -> Procedure:
    """Give a fresh instance what the last one wanted it to have."""
    state, standing.kept = standing.kept, None
    if state is not None:
        yield from do(body, method_of(body, actor_of(body), "restore"), state)
        standing.kept = state  # it was not this that failed, if its start does
    yield from call_hook(body, "post_restart", PostRestart())


def _close(awaitable: Any) -> None:
    """Let a coroutine go that nobody will await."""
    if hasattr(awaitable, "close"):
        awaitable.close()


def install(body: Body, actor: Any) -> None:
    """Let `actor` handle the messages."""
    if not isinstance(actor, Actor):
        raise NotAnActor(
            f"{body.spec.label[0]}(...) made {actor!r}, which is no Actor: it must return an instance of a subclass"
        )
    actor.ctx = body  # type: ignore[assignment]
    body.cell.handler = blueprint_of(type(actor)).handler
    body.cell.subject = actor


def play(body: Body, part: Part) -> None:
    """Let `part` handle what comes."""
    body.cell.handler = part.handler
    body.cell.subject = part.subject
    if part.on_signal is not None or body.more is not None:
        body.extra().on_signal = part.on_signal


def part_of(body: Body, behavior: Any) -> Part:
    """Find out what a behavior, function or method is made of; behaviors that need something are given it."""
    while isinstance(behavior, Setup | Supervised):
        if isinstance(behavior, Supervised):
            body.extra().by_behavior = Settings(behavior.supervision, body.settings().env)
            behavior = behavior.behavior
        else:
            behavior = _set_up(body, behavior)
            if isawaitable(behavior):
                _close(behavior)
                raise NotAnActor(
                    "a behavior is set up at once, not by an `async def`: what takes time is its own message"
                )
    if isinstance(behavior, Failed):
        raise behavior.cause
    if behavior is Behaviors.stopped:
        body.cell.loop.host.request_end(body.cell, NORMAL)
        return Part(_ignore, body, None)
    if isinstance(behavior, Receive):
        return Part(behavior.handler, body, behavior.on_signal)
    if isinstance(behavior, Behavior) or not callable(behavior):
        raise NotAnActor(f"{behavior!r} cannot handle messages: give a Behaviors.receive(...), or a function")
    return _part_of_function(body, behavior)


def _set_up(body: Body, behavior: Setup) -> Any:
    context: Any = body
    if behavior.needs == "setup":
        return behavior.make(context)
    if behavior.needs == "with_timers":
        return behavior.make(context.timers)
    context.stash_capacity = behavior.capacity
    return behavior.make(body.extra().stash)


def _ignore(ctx: Any, message: object) -> None:
    """Nothing comes any more."""


def _part_of_function(body: Body, function: Any) -> Part:
    """A function `(ctx, message)`, or `(message)`: as methods of the actor itself are."""
    count = positional_arguments(function)
    if count == 2:
        return Part(function, body, None)
    if count == 1:
        if isinstance(function, MethodType):
            return Part(function.__func__, function.__self__, None)
        return Part(lambda _, message: function(message), body, None)
    raise NotAnActor(f"{function!r} cannot handle messages: it must take (ctx, message), or a method (message)")


def become(body: Body, behavior: Any) -> None:
    """Handle what comes next with `behavior`; `unbecome` goes back."""
    if body.cell.handler is None:
        raise BadArgument(f"{body.cell.shown()} has no behavior yet: return it from the setup, instead of become()")
    part = part_of(body, behavior)
    more = body.extra()
    more.behaviors.append(Part(body.cell.handler, body.cell.subject, more.on_signal))
    play(body, part)


def unbecome(body: Body) -> None:
    """Go back to what it was before the last `become`; nothing happens if there is no such thing."""
    if body.more is not None and body.more.behaviors:
        play(body, body.more.behaviors.pop())


def become_next(cell: Cell, verdict: Any) -> None:
    """A handler returned a behavior that is more than a word: be that. The first one stays below, for its hooks."""
    if isinstance(verdict, Failed):
        raise verdict.cause
    body = cell.body
    if isinstance(body, Body):
        if body.more is None or not body.more.behaviors:
            become(body, verdict)
        else:
            play(body, part_of(body, verdict))


def cares_for_children(body: Body) -> bool:
    """Whether the actor would do anything when a child has ended."""
    actor = actor_of(body)
    if isinstance(actor, Actor):
        hooks = blueprint_of(type(actor)).hooks
        return "on_child_terminated" in hooks or "on_signal" in hooks
    return body.more is not None and body.more.on_signal is not None


def tell_started(more: More, cause: BaseException | None) -> None:
    """Those who wait for it to start can go on; those who wait for its end wait on."""
    for waiter in list(more.waiters):
        if waiter.for_start:
            more.waiters.remove(waiter)
            waiter.end(None, cause)
