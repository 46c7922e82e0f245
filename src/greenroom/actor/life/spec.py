"""How an actor is made: what was given to `spawn`, understood once, so that a restart can make it afresh.

Actors of one class have one spec; what each was given for its constructor stands in its record.

>>> spec_of(42, (), {})
Traceback (most recent call last):
    ...
greenroom.errors.NotAnActor: 42 is neither an Actor class nor a function that makes or is one
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behavior import Behavior, positional_arguments, refuse_generator, require_answers
from greenroom.actor.api.handles import dispatcher_of
from greenroom.actor.api.props import Props, label_of
from greenroom.errors import NotAnActor
from greenroom.runtimelog import RuntimeLog

_NO_KWARGS: dict[str, object] = {}
_log = RuntimeLog()

# What a spec's factory is: an actor class, a function that makes an actor, a handler function, or a behavior.
CLASS = 0
MAKER = 1
HANDLER = 2
BEHAVIOR = 3

HOOKS: dict[str, tuple[str, ...]] = {
    "pre_start": (),
    "post_start": (),
    "pre_stop": (),
    "post_stop": (),
    "pre_restart": ("cause",),
    "post_restart": (),
    "on_terminated": ("ref", "cause"),
    "on_child_terminated": ("ref", "cause"),
    "on_signal": ("signal",),
}
"""The hooks of an actor, and what each is called with."""
OPTIONS = ("name", "mailbox", "dispatcher", "supervision", "drain", "env", "stop_timeout")
"""The options of `spawn` but `parent`: its other arguments go to the factory."""
_METHODS = (*HOOKS, "receive", "inspect", "snapshot", "restore")


class ActorClassInfo:
    """What the runtime knows of an actor class, found out once."""

    def __init__(self, actor_class: type[Actor]) -> None:
        self.actor_class = actor_class
        # What its constructor can do without, and `spawn` takes too; empty once that was told.
        self.ambiguous = _ambiguous(actor_class)
        self.label = (actor_class.__name__,)
        self.handler = _handler_of(actor_class)
        # Checked again: a user's `__init_subclass__` may not have called that of Actor.
        self.answers = require_answers(actor_class.answers, f"{actor_class.__name__}.answers")
        self.hooks = frozenset(name for name in HOOKS if _has_own(actor_class, name))
        for name in self.hooks:
            _require_signature(actor_class, name)
        for name in _METHODS:
            refuse_generator(getattr(actor_class, name), f"{actor_class.__name__}.{name}")
        self.has_on_signal = "on_signal" in self.hooks
        self.has_pre_start = "pre_start" in self.hooks
        self.has_post_start = "post_start" in self.hooks
        self.has_pre_stop = "pre_stop" in self.hooks
        self.has_post_stop = "post_stop" in self.hooks
        # Whether nothing but its constructor has to run before its first message, and nothing after its last.
        self.starts_plainly = self.hooks.isdisjoint(("pre_start", "post_start", "on_signal"))
        self.ends_plainly = self.hooks.isdisjoint(("pre_stop", "post_stop", "on_signal"))
        # Whether it would do anything when a child has ended.
        self.cares_for_children = "on_child_terminated" in self.hooks or self.has_on_signal
        # Whether it has something to hand on to its next incarnation.
        self.keeps_state = _has_own(actor_class, "snapshot") and _has_own(actor_class, "restore")
        # Whether one of its actors has been made without arguments: then it can be, and where that is asked for is no
        # longer of interest.
        self.proven = False
        # Shared by all its actors that are spawned without keyword arguments.
        self.spec = ActorSpec(CLASS, actor_class, {}, self)


class ActorSpec:
    """A factory and its keyword arguments; an actor class has its `class_info`."""

    __slots__ = ("class_info", "factory", "kind", "kwargs", "label")

    def __init__(
        self, kind: int, factory: Any, kwargs: dict[str, object], class_info: ActorClassInfo | None = None
    ) -> None:
        self.kind = kind
        self.factory = factory
        self.kwargs = kwargs or _NO_KWARGS  # one for all: a spec lives as long as its actor
        self.class_info = class_info
        # What a nameless actor is called after. In a tuple, which tells it from a name.
        self.label = (label_of(factory),) if class_info is None else class_info.label

    def is_proven(self) -> bool:
        """Whether the spawn site need not be noted: there is nothing to make, or it has been made before."""
        return self.kind == HANDLER if self.class_info is None else self.class_info.proven


def spec_of(factory: object, args: tuple[object, ...], kwargs: dict[str, object]) -> ActorSpec:
    """Understand the arguments of a spawn, or raise what is wrong with them."""
    if isinstance(factory, type) and issubclass(factory, Actor):
        class_info = class_info_of(factory)
        return ActorSpec(CLASS, factory, kwargs, class_info) if kwargs else class_info.spec
    if isinstance(factory, Props):
        if args or kwargs:
            raise NotAnActor(f"{factory!r} has its arguments already: spawn it without more")
        return spec_of(factory.factory, factory.args, factory.kwargs)
    if isinstance(factory, Actor):
        raise NotAnActor(
            f"spawn({type(factory).__name__}(...)) was given an instance: pass the class and its arguments, as in "
            f"spawn({type(factory).__name__}, ...), because a restart must be able to make it afresh"
        )
    if isinstance(factory, Behavior):
        if args or kwargs:
            raise NotAnActor(f"{factory!r} is a behavior and takes no arguments")
        return ActorSpec(BEHAVIOR, factory, _NO_KWARGS)
    if not callable(factory) or isinstance(factory, type):
        raise NotAnActor(f"{factory!r} is neither an Actor class nor a function that makes or is one")
    if not args and not kwargs and _is_handler(factory):
        refuse_generator(factory)
        return ActorSpec(HANDLER, factory, _NO_KWARGS)
    return ActorSpec(MAKER, factory, kwargs)


def args_of(factory: Any, args: tuple[object, ...]) -> tuple[object, ...]:
    """The constructor's arguments: `args`, unless `factory` holds its own."""
    while isinstance(factory, Props):
        factory, args = factory.factory, factory.args
    return args


def warn_of_ambiguity(
    class_info: ActorClassInfo, args: tuple[object, ...], kwargs: dict[str, object], given: tuple[object, ...]
) -> None:
    """Say so, once, if an option in `given` may have been meant for the constructor, which takes it too.

    If the constructor cannot do without, there is no need to: the actor's start fails, and says why.
    """
    actor_class: type[Actor] = class_info.actor_class
    try:
        passed = _signature_of(actor_class).bind_partial(*args, **kwargs).arguments
    except TypeError:
        return  # its start says so
    for option, value in zip(OPTIONS, given, strict=True):
        if value is not None and option in class_info.ambiguous and option not in passed:
            class_info.ambiguous = frozenset()
            name = actor_class.__name__
            told = (
                "spawn(%s, %s=...): both spawn and the constructor of %s take `%s`, and this one is for spawn. "
                "Write spawn(props(%s, %s=...)) to give it to the constructor, or spawn(props(%s), %s=...) to be clear"
            )
            _log.warning(told, name, option, name, option, name, option, name, option)
            return


def _ambiguous(actor_class: type) -> frozenset[str]:
    parameters = _signature_of(actor_class).parameters
    return frozenset(
        [
            name
            for name in OPTIONS
            if name in parameters
            and parameters[name].kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            and parameters[name].default is not inspect.Parameter.empty
        ]
    )


def class_info_of(actor_class: type[Actor]) -> ActorClassInfo:
    known: ActorClassInfo | None = actor_class.__greenroom_class_info__
    if known is None or known.actor_class is not actor_class:  # its base's
        known = actor_class.__greenroom_class_info__ = ActorClassInfo(actor_class)
    return known


def _handler_of(actor_class: type) -> Callable[..., object]:
    own: Any = getattr(actor_class, "receive", None)
    if own is not Actor.receive:
        if not callable(own):
            raise NotAnActor(f"{actor_class.__name__}.receive is {own!r}: it must be a method that takes the message")
        _require_signature(actor_class, "receive", ("message",))
    # Marked methods come first, wherever in the family they and `receive` are defined.
    handler = dispatcher_of(actor_class, own) or own
    if handler is Actor.receive:
        raise NotAnActor(
            f"{actor_class.__name__} has neither a `receive` method nor one marked with @handles: "
            "it could not handle any message"
        )
    return handler


def _signature_of(actor_class: type) -> inspect.Signature:
    """The constructor's signature; an empty one if it has none to show."""
    try:
        return inspect.signature(actor_class)
    except (TypeError, ValueError):
        return inspect.Signature()


def _has_own(actor_class: type, name: str) -> bool:
    return getattr(actor_class, name) is not getattr(Actor, name)


def _require_signature(actor_class: type, name: str, arguments: tuple[str, ...] | None = None) -> None:
    wanted = HOOKS[name] if arguments is None else arguments
    method = inspect.getattr_static(actor_class, name)
    try:
        signature = inspect.signature(getattr(actor_class, name))
    except (TypeError, ValueError):
        return  # a builtin, or a compiled function that does not tell
    # A handler is called as a plain function, with its actor first; hooks are called as methods.
    bound = isinstance(method, staticmethod | classmethod) and name != "receive"
    given = wanted if bound else ("self", *wanted)
    try:
        signature.bind(*given)
    except TypeError:
        raise NotAnActor(
            f"{actor_class.__name__}.{name}{signature} cannot be called with ({', '.join(('self', *wanted))})"
        ) from None


def _is_handler(function: Callable[..., object]) -> bool:
    """Whether `function` is a handler `(ctx, message)`, and not a factory without arguments."""
    required = positional_arguments(function)
    if required == 0:
        return False
    if required == 2:
        return True
    raise NotAnActor(
        f"{label_of(function)} needs {required} arguments: a handler takes (ctx, message), and a function that makes "
        "an actor must be given its arguments in `spawn`"
    )
