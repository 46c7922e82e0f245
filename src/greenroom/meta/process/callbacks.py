"""What there is to know of a meta-process's class: which callbacks it has, how they are called, and where they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from greenroom.errors import NotAMeta
from greenroom.meta.process.base import MetaBase

__all__ = ["Callbacks", "callbacks_of"]

Handle = Callable[[MetaBase, object, object], object]
"""Called with the meta-process, the message, and its sender."""


class Callbacks:
    """The callbacks of one class, found out once."""

    __slots__ = ("handle_call", "handle_message", "on_loop", "own_code", "reads", "reads_async")

    def __init__(self, cls: type[MetaBase]) -> None:
        def has(name: str) -> bool:
            return getattr(cls, name) is not getattr(MetaBase, name)

        for name in ("init", "start", "handle_message", "handle_call", "terminate", "inspect"):
            function = getattr(cls, name)
            if not callable(function):
                raise NotAMeta(f"{cls.__name__}.{name} is {function!r}: it must be a method")
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise NotAMeta(f"{cls.__name__}.{name} has a `yield`: it must be a plain method, or an `async def`")
        if iscoroutinefunction(cls.init):
            raise NotAMeta(
                f"{cls.__name__}.init is async: `spawn_meta` waits for it; what takes time goes into `start`"
            )
        _require_arguments(cls, "init", 0)
        _require_arguments(cls, "start", 0)
        _require_arguments(cls, "terminate", 1)
        self.reads = has("start")
        self.reads_async = iscoroutinefunction(cls.start)
        self.handle_message: Handle = _with_sender(cls, "handle_message")
        self.handle_call: Handle = _with_sender(cls, "handle_call")
        # Whether a handler may block: then it gets a thread while it runs.
        blocks = any(has(name) and not iscoroutinefunction(getattr(cls, name)) for name in _HANDLERS)
        self.on_loop = cls._on_loop or not blocks
        # Whether some of it is not the runtime's own.
        self.own_code = not cls.__module__.startswith("greenroom.meta.")


_HANDLERS = ("handle_message", "handle_call", "terminate", "inspect")


def callbacks_of(cls: type[MetaBase]) -> Callbacks:
    """What there is to know of `cls`."""
    known: Callbacks | None = cls.__dict__.get("__greenroom_callbacks__")
    if known is None:
        known = Callbacks(cls)
        cls.__greenroom_callbacks__ = known  # type: ignore[attr-defined]
    return known


def _parameters(cls: type, name: str) -> list[str] | None:
    """What a method takes after `self`; None if that cannot be told, or is anything."""
    try:
        parameters = list(inspect.signature(getattr(cls, name)).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    if not isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod):
        parameters = parameters[1:]
    required = [one for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    return [one.name for one in required if one.kind is not one.KEYWORD_ONLY or one.name == "sender"]


def _require_arguments(cls: type, name: str, number: int) -> None:
    function = getattr(cls, name)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    is_bound = isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod)
    try:
        signature.bind(*[None] * (number + (0 if is_bound else 1)))
    except TypeError:
        wanted = "no arguments" if number == 0 else f"{number} argument"
        raise NotAMeta(f"{cls.__name__}.{name}{signature} cannot be called: it is given {wanted}") from None


def _with_sender(cls: type, name: str) -> Handle:
    """A handler of `cls`, whether or not it takes the sender too."""
    function: Any = getattr(cls, name)
    taken = _parameters(cls, name)
    if taken is None or len(taken) == 1:
        return lambda meta, message, sender: function(meta, message)
    if len(taken) == 2 and taken[0] == "sender":
        return lambda meta, message, sender: function(meta, sender, message)
    if len(taken) == 2 and taken[1] == "sender":
        return lambda meta, message, sender: function(meta, message, sender=sender)
    raise NotAMeta(
        f"{cls.__name__}.{name}({', '.join(['self', *taken])}) cannot be called: it takes the message and, if you "
        "like, its `sender`"
    )
