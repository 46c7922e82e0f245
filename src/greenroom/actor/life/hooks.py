"""Steps of an actor's life that run a user's hooks, which may be `async def`.

A procedure is a generator that yields what has to be awaited. As long as no hook is async it runs through at once, on
the spot; from the first awaitable on, it is a coroutine that the loop steps like a handler's. So there is one text for
both, and a life without async hooks never meets asyncio.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator
from inspect import isawaitable
from typing import Any

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.actor import Actor
from greenroom.actor.records.record import Body
from greenroom.actor.messaging.signals import Signal
from greenroom.actor.life.spec import blueprint_of
from greenroom.exits import ends_system

__all__ = [
    "HANDLE",
    "SIGNAL",
    "Hook",
    "Procedure",
    "actor_of",
    "attempt_hook",
    "begin",
    "call",
    "call_hook",
    "do",
    "hand_to_actor",
    "method_of",
    "place_of",
]

_log = logging.getLogger("greenroom")

Procedure = Generator[Awaitable[Any], Any, Any]


def begin(procedure: Procedure, ending: Body | None = None) -> Coroutine[Any, Any, Any] | Any:
    """Run `procedure` as far as it goes without waiting: its result, or a coroutine that is the rest of it.

    If it is the `ending` of an actor, even a hook that raises GeneratorExit does not break it off: only when the actor
    was abandoned does that mean what it says.
    """
    try:
        awaitable = next(procedure)
    except StopIteration as stop:
        return stop.value
    return _go_on(procedure, awaitable, ending)


async def _go_on(procedure: Procedure, awaitable: Awaitable[Any], ending: Body | None) -> Any:
    while True:
        try:
            try:
                result = await awaitable
            except GeneratorExit:
                if ending is None or ending.extra().abandoned:
                    procedure.close()
                    raise
                awaitable = procedure.throw(RuntimeError("the hook raised GeneratorExit"))
            except BaseException as exc:
                awaitable = procedure.throw(exc)
            else:
                awaitable = procedure.send(result)
        except StopIteration as stop:
            return stop.value


def actor_of(body: Body) -> Any:
    """The user's actor, whatever it has become since; for actors that are functions, their context."""
    more = body.more
    return more.behaviors[0].subject if more is not None and more.behaviors else body.cell.subject


def place_of(body: Body) -> Any:
    """Where the actor's code runs, if that is not on its loop's own thread."""
    return None if body.more is None else body.more.place


def place_for(body: Body, function: Callable[..., Any]) -> Any:
    """Where one of the actor's functions is to be called, if that is not here."""
    place = place_of(body)
    return None if place is None or place.leaves_at_home(function) else place


class Hook:
    """One of the actor's methods, by name: for those who have the actor itself in another process."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: object) -> Any:
        raise TypeError(f"{self.name} belongs to an actor in another process")


HANDLE = Hook("handle")
SIGNAL = Hook("signal")


def method_of(body: Body, actor: Any, name: str) -> Any:
    """A method of the user's actor, for `do`."""
    place = place_of(body)
    return getattr(actor, name) if place is None or not place.is_apart else Hook(name)


def call(body: Body, function: Callable[..., Any], *arguments: object) -> Procedure:
    """Call a user's function, wherever the actor's code runs; what it returns, even if that is to be awaited."""
    place = place_for(body, function)
    if place is None:
        return function(*arguments)
    return (yield place.call(body.cell, function, arguments, False))


def do(body: Body, function: Callable[..., Any], *arguments: object) -> Procedure:
    """The same; what it returns is awaited, if it can be."""
    place = place_for(body, function)
    result = function(*arguments) if place is None else (yield place.call(body.cell, function, arguments, True))
    if isawaitable(result):
        result = yield result
    return result


def hand_to_actor(body: Body, message: object) -> Any:
    """Have something that is no ordinary message handled like one: what that returns, or the rest of it."""
    cell = body.cell
    place = place_of(body)
    if place is None:
        return cell.handler(cell.subject, message)
    if place.is_apart:
        return begin(do(body, HANDLE, message))
    return begin(do(body, _handle_there, cell, message))


def _handle_there(cell: Cell, message: object) -> Any:
    """What its handler returns; what it becomes by that, it becomes where its code runs."""
    return cell.loop.host.absorb(cell, cell.handler(cell.subject, message))


def call_hook(body: Body, name: str, signal: Signal, *arguments: object) -> Procedure:
    """Call the hook `name` if the actor has it, then `on_signal`; the last result that is not None."""
    result = None
    actor = actor_of(body)
    if isinstance(actor, Actor):
        hooks = blueprint_of(type(actor)).hooks
        if name in hooks:
            result = yield from do(body, method_of(body, actor, name), *arguments)
        if "on_signal" in hooks:
            answer = yield from do(body, method_of(body, actor, "on_signal"), signal)
            if answer is not None:
                result = answer
    elif body.more is not None and body.more.on_signal is not None:
        apart = body.more.on_signal is SIGNAL  # where its code is, its context is too
        result = yield from do(body, body.more.on_signal, *(() if apart else (body,)), signal)
    return result


def attempt_hook(body: Body, name: str, signal: Signal, *arguments: object) -> Procedure:
    """Call a hook of an actor that is ending or being restarted: what it raises is logged, and that goes on."""
    try:
        yield from call_hook(body, name, signal, *arguments)
    except (Exception, CancelledError) as exc:
        _report(body, name, exc)
    except BaseException as exc:
        if isinstance(exc, GeneratorExit) and body.extra().abandoned:
            raise
        _report(body, name, exc)
        if ends_system(exc):
            body.cell.loop.host.port.fail(exc)


def _report(body: Body, name: str, cause: BaseException) -> None:
    """Say that a hook raised: in the log, and to the simulation if there is one."""
    fields = body.cell.loop.host.log_fields(body.cell)
    _log.exception("%s of %s raised, which changes nothing", name, body.cell.name(), extra=fields)
    director = body.cell.loop.director
    if director is not None:
        director.hook_raised(body.cell, name, cause)
