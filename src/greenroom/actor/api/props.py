"""`props`: a factory with its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from greenroom.actor.api.actor import Actor

if TYPE_CHECKING:
    from typing import ParamSpec

    from typing_extensions import TypeVar

    P = ParamSpec("P")
    M = TypeVar("M", contravariant=True, default=Any)
    R = TypeVar("R", covariant=True, default=Any)
else:
    from typing import TypeVar

    M = TypeVar("M")
    R = TypeVar("R")


class Props(Generic[M, R]):
    """A factory with its arguments, for `spawn`. Use it if the constructor has keywords that `spawn` has too."""

    __slots__ = ("args", "factory", "kwargs")

    def __init__(self, factory: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        self.factory = factory
        self.args = tuple(args)
        self.kwargs = dict(kwargs)

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"props({', '.join([label_of(self.factory), *given])})"


def props(factory: Callable[P, Actor[M, R]], /, *args: P.args, **kwargs: P.kwargs) -> Props[M, R]:
    """Keep a factory and its arguments together, to be spawned later.

    >>> class Greeter(Actor[str, str]):
    ...     def __init__(self, name: str) -> None:
    ...         self.called = name
    ...     def receive(self, message: str) -> str:
    ...         return f"{message}, I am {self.called}"
    >>> props(Greeter, name="Ada")
    props(Greeter, name='Ada')
    """
    return Props(factory, args, kwargs)


def label_of(factory: object) -> str:
    """The name of a factory in errors, logs and paths."""
    return str(getattr(factory, "__name__", None) or type(factory).__name__)
