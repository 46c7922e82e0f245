"""Checks of an actor's lifecycle: its states, its exit reason, and the hooks that were called."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from enum import Enum
from types import EllipsisType, new_class
from typing import Any, NamedTuple, TypeVar, cast

from greenroom.actor.api.actor import Actor
from greenroom.actor.life.spec import HOOKS, class_info_of
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.signals import Signal
from greenroom.actor.records.states import State
from greenroom.errors import BadArgument, NotAnActor
from greenroom.errortext import in_words
from greenroom.exits import ExitKind, ExitReason
from greenroom.validation import require_delay

A = TypeVar("A", bound=Actor)
E = TypeVar("E", bound=Enum)
T = TypeVar("T")
_End = ExitKind | ExitReason | type[BaseException] | BaseException
"""How an actor should have ended."""


_STATE_HOOKS = ("snapshot", "restore")
_RECORDED = (*(hook for hook in HOOKS if hook != "on_signal"), *_STATE_HOOKS)


def assert_states(ref: ActorRef, *states: State | str | EllipsisType) -> tuple[State, ...]:
    """Fail unless the actor went through exactly these states so far. Return its states.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem, SystemConfig
    >>> class Worker(Actor[str]):
    ...     def receive(self, message: str) -> None: ...
    >>> async def main():
    ...     async with ActorSystem(config=SystemConfig(history=True)) as system:
    ...         worker = system.spawn(Worker)
    ...         await worker.started()
    ...         assert_states(worker, State.CREATED, State.STARTING, State.RUNNING)
    ...     assert_states(worker, ..., "running", "stopping", "stopped", "terminated")
    >>> asyncio.run(main())

    A state is given as such or by its name. `...` stands for any number of states. Actors remember their states in a
    system with `SystemConfig(history=True)`; the actor in an `ActorHarness` always does.
    """
    wanted = [one if isinstance(one, EllipsisType) else _member(State, one, "state of an actor") for one in states]
    history = ref.history
    system = ref._cell.loop.host.system
    if not history and not system.config.history:
        raise AssertionError(
            f"{ref} does not remember its states: give the system {system.name!r} a SystemConfig(history=True)"
        )
    if not _fits(wanted, history):
        raise AssertionError(_differs(f"{ref} should have been", "it was", wanted, history, lambda state: state.value))
    return history


def _member(kind: type[E], given: E | str, what: str) -> E:
    """The member of an enum that has this value, in whatever case."""
    if isinstance(given, kind):
        return given
    try:
        return kind(str(given).lower())
    except ValueError:
        known = ", ".join(one.value for one in kind)
        raise BadArgument(f"{given!r} is no {what}: there are {known}") from None


async def assert_ended(
    ref: ActorRef,
    *how: ExitKind | ExitReason | str | type[BaseException] | BaseException,
    timeout: float = 3.0,
) -> ExitReason:
    """Wait until the actor has ended, and fail unless it ended as expected. Return its exit reason.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem
    >>> class Worker(Actor[str]):
    ...     def receive(self, message: str) -> None: ...
    >>> async def main():
    ...     async with ActorSystem() as system:
    ...         worker = system.spawn(Worker)
    ...         worker.kill()
    ...         return await assert_ended(worker, ExitKind.KILLED)
    >>> print(asyncio.run(main()))
    killed

    All of `how` must match. Each is a kind of exit (`ExitKind.FAIL`, or its name), a whole `ExitReason`, the type of
    the exception that ended the actor, or an exception that equals it in type, arguments, attributes and text.
    `timeout` is in real seconds.
    """
    require_delay("timeout", timeout)
    wanted = [_member(ExitKind, one, "kind of end") if isinstance(one, str) else one for one in how]
    said = f" ({', '.join(map(_end_in_words, wanted))})" if wanted else ""
    try:
        async with asyncio.timeout(timeout):
            reason = await ref.terminated()
    except TimeoutError:
        raise AssertionError(
            f"{ref} should have ended{said} and is still {ref.state.value} after {timeout} s"
        ) from None
    for one in wanted:
        different = _mismatch(reason, one)
        if different is not None:
            raise AssertionError(f"{ref} should have ended otherwise{said}, and ended so: {reason}{different}")
        if isinstance(one, type | BaseException) and reason.cause is not None:
            ref._cell.loop.world.retrieved(reason.cause)  # expected, so a simulation does not fail because of it
    return reason


def _end_in_words(how: _End) -> str:
    if isinstance(how, ExitKind):
        return how.value
    return how.__name__ if isinstance(how, type) else str(how) if isinstance(how, ExitReason) else repr(how)


def _mismatch(reason: ExitReason, how: _End) -> str | None:
    """None if the actor ended so; else what to add to the reason, if that alone does not show the difference."""
    if isinstance(how, ExitKind):
        return None if reason.kind is how else ""
    if isinstance(how, type):
        return None if isinstance(reason.cause, how) else ""
    if isinstance(how, ExitReason):
        if reason.kind is not how.kind:
            return ""
        different = difference_between(reason.cause, how.cause)
    else:
        different = difference_between(reason.cause, how)
    return None if different is None else f" ({different})"


class HookCall(NamedTuple):
    """One call of a hook: its name, the actor, and the arguments."""

    name: str
    ref: ActorRef
    arguments: tuple[Any, ...] = ()


class _SkipInitSubclass:
    """First base of a derived class, so that the user's own `__init_subclass__` is not called.

    The user's method would treat the derived class as one more actor class: require keywords, or register it.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        pass


class HookLog:
    """Records which hooks of an actor are called, in order, across restarts.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem
    >>> class Worker(Actor[str]):
    ...     def pre_start(self) -> None:
    ...         self.ready = True
    ...     def receive(self, message: str) -> None: ...
    >>> hooks = HookLog()
    >>> async def main():
    ...     async with ActorSystem() as system:
    ...         worker = system.spawn(hooks.of(Worker), name="worker")
    ...         await worker.started()
    ...         hooks.assert_called("pre_start", "post_start")
    >>> asyncio.run(main())
    >>> hooks.calls
    ['pre_start', 'post_start', 'pre_stop', 'post_stop']

    Hooks that the class does not define are recorded too. `on_signal`, which gets every signal, is not recorded.
    `snapshot` and `restore` are recorded if the class has them.
    """

    def __init__(self) -> None:
        self.records: list[HookCall] = []
        self._made: dict[type[Actor], type[Actor]] = {}

    def of(self, actor_class: type[A]) -> type[A]:
        """A subclass with the same name whose hook calls are recorded; give it to `spawn`, `props` or a `ChildSpec`."""
        given: object = actor_class
        if not isinstance(given, type) or not issubclass(given, Actor):
            raise NotAnActor(f"HookLog.of() takes an Actor class, not {given!r}: as in spawn(hooks.of(Worker), ...)")
        if actor_class in self._made.values():
            return actor_class
        if actor_class not in self._made:
            self._made[actor_class] = self._derive(actor_class)
        return cast("type[A]", self._made[actor_class])

    def _derive(self, actor_class: type[A]) -> type[A]:
        info = class_info_of(actor_class)  # errors name this class, not the derived one
        own = [hook for hook in _RECORDED if hook in (*info.hooks, *(_STATE_HOOKS if info.keeps_state else ()))]

        def call_next(actor: Actor, hook: str, *arguments: object) -> object:
            return getattr(super(derived, actor), hook)(*arguments)  # a coroutine, if that hook is `async def`

        def note_default(actor: Actor, signal: Signal) -> object:
            # A signal comes here after its own hook, which has recorded the call if the class defines it. We cannot
            # define the missing hooks instead: an actor with `on_terminated` gets no DeathPact.
            hook = _hook_of(signal)
            if hook in _RECORDED and hook not in own:
                self._note(actor, hook, tuple(getattr(signal, name) for name in HOOKS[hook]))
            return call_next(actor, "on_signal", signal)

        def note_own(hook: str) -> Callable[..., object]:
            def noted(actor: Actor, *arguments: object) -> object:
                self._note(actor, hook, arguments)
                return call_next(actor, hook, *arguments)

            return noted

        namespace: dict[str, object] = {hook: note_own(hook) for hook in own}
        namespace["on_signal"] = note_default
        namespace["__slots__"] = ()
        for name in ("__doc__", "__module__", "__qualname__"):
            namespace[name] = getattr(actor_class, name)
        bases = (_SkipInitSubclass, actor_class)
        try:
            derived = new_class(actor_class.__name__, bases, exec_body=lambda made: made.update(namespace))
        except Exception as exc:  # raised by its metaclass
            raise BadArgument(
                f"the hooks of {actor_class.__qualname__} cannot be written down: a class like it cannot be made, "
                f"for its {type(actor_class).__name__} raised {in_words(exc)}"
            ) from exc
        derived.__bases__ = (actor_class,)
        return cast("type[A]", derived)

    def _note(self, actor: Actor, hook: str, arguments: tuple[object, ...]) -> None:
        self.records.append(HookCall(hook, actor.ctx.self, arguments))

    @property
    def calls(self) -> list[str]:
        """The names of the hooks that were called; `records` also has the actors and arguments."""
        return [call.name for call in self.records]

    def assert_called(self, *hooks: str | EllipsisType, actor: ActorRef | None = None) -> list[HookCall]:
        """Fail unless exactly these hooks were called (of `actor`, if given). `...` stands for any number of calls."""
        for hook in hooks:
            if not isinstance(hook, EllipsisType) and hook not in _RECORDED:
                raise BadArgument(f"{hook!r} is no hook that is written down: there are {', '.join(_RECORDED)}")
        records = [call for call in self.records if actor is None or call.ref == actor]
        called = [call.name for call in records]
        if not _fits(hooks, called):
            who = "/".join(sorted({kind.__name__ for kind in self._made})) if actor is None else str(actor)
            raise AssertionError(_differs(f"hooks of {who or 'nobody'} expected", "called were", hooks, called, str))
        return records

    def clear(self) -> None:
        """Forget the calls so far."""
        self.records.clear()


def _hook_of(signal: Signal) -> str:
    """`pre_start` for a `PreStart`, `on_terminated` for a `Terminated`."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(signal).__name__).lower()
    return name if name in HOOKS else f"on_{name}"


def _fits(wanted: Sequence[object], actual: Sequence[object]) -> bool:
    """Whether `actual` matches `wanted`, where `...` stands for any number of entries.

    >>> _fits([1, ..., 3], [1, 2, 2, 3]), _fits([1, ...], [1]), _fits([..., 2], [2, 3])
    (True, True, False)
    """
    # The lengths of prefixes of `actual` that the entries of `wanted` so far can match.
    reached = [0]
    for one in wanted:
        if isinstance(one, EllipsisType):
            reached = list(range(min(reached, default=len(actual) + 1), len(actual) + 1))
        else:
            reached = [place + 1 for place in reached if place < len(actual) and actual[place] == one]
    return len(actual) in reached


def _differs(
    expected: str, came: str, wanted: Sequence[T | EllipsisType], actual: Sequence[T], name_of: Callable[[T], str]
) -> str:
    names = ["..." if isinstance(one, EllipsisType) else name_of(one) for one in wanted]
    seen = [name_of(one) for one in actual]
    text = f"{expected} {', '.join(names) or 'nothing'}; {came} {', '.join(seen) or 'nothing'}"
    if any(_fits(wanted[:length], actual) for length in range(len(wanted))):
        text += " (the rest may be still to come: await `ref.started()`, `ref.terminated()` or `system.settle()` first)"
    return text


def difference_between(actual: BaseException | None, expected: BaseException | None) -> str | None:
    """Describe how an exception (or None) differs from the expected one; None if it does not.

    >>> difference_between(OSError(2, "no such file", "a.txt"), OSError(2, "no such file", "a.txt"))
    >>> difference_between(OSError(2, "no such file", "a.txt"), OSError(2, "no such file", "b.txt"))
    "it says [Errno 2] no such file: 'a.txt', not [Errno 2] no such file: 'b.txt'"
    >>> difference_between(KeyError(), ValueError())
    'it is KeyError, not ValueError'

    By default, exceptions compare by identity. Here two are equal if their own `__eq__` says so, or if they have the
    same type and equal arguments, attributes and text. Tracebacks, notes and causes are not compared.
    """
    if type(actual) is not type(expected):
        return f"it is {_type_name(actual)}, not {_type_name(expected)}"
    if actual is None or expected is None or actual == expected:
        return None  # both None, the same, or equal dataclasses, whose `args` depend on how they were made
    if not _equal(actual.args, expected.args):
        return f"its arguments are {actual.args!r}, not {expected.args!r}"
    came, wanted = _attributes(actual), _attributes(expected)
    for name in sorted(came.keys() | wanted.keys()):
        if name not in came:
            return f"it has no {name}"
        if name not in wanted:
            return f"it has a {name}, {came[name]!r}"
        if not _equal(came[name], wanted[name]):
            return f"its {name} is {came[name]!r}, not {wanted[name]!r}"
    # The text of some built-in exceptions has more than their arguments: a file name, for example.
    return None if str(actual) == str(expected) else f"it says {actual}, not {expected}"


def _type_name(exc: BaseException | None) -> str:
    return "no exception" if exc is None else type(exc).__name__


def _attributes(exc: BaseException) -> dict[str, object]:
    """The instance attributes, without Python's own, such as `__notes__`."""
    return {name: value for name, value in vars(exc).items() if not (name.startswith("__") and name.endswith("__"))}


def _equal(one: object, other: object) -> bool:
    """Compare two values, and the exceptions inside lists and tuples: an exception group has some in its arguments."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, BaseException) and isinstance(other, BaseException):
        return difference_between(one, other) is None
    return one is other or bool(one == other)
