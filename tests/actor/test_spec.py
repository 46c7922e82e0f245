"""What may be spawned, in every form it comes in (J4)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from greenroom import Actor, ActorSystem, Behaviors, Context, MailboxConfig, Props, props
from tests.actor.greeters import Demanding, Greeter, async_handler, handler, handler_with_more, three

T = TypeVar("T")


def maker() -> Greeter:
    return Greeter()


def maker_of(greeting: str, mark: str) -> Greeter:
    """Needs two arguments, as a handler does: those in `spawn` tell them apart."""
    return Greeter(greeting, mark=mark)


def keyword_maker(*, greeting: str) -> Greeter:
    return Greeter(greeting)


class Handling:
    """Not an actor, but its methods and itself may handle messages."""

    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting

    def method(self, ctx: Context, message: str) -> str:
        return f"{self.greeting} {message}"

    def __call__(self, ctx: Context, message: str) -> str:
        return f"{self.greeting} {message}"

    def make(self) -> Greeter:
        return Greeter(self.greeting)

    @staticmethod
    def static(ctx: Context, message: str) -> str:
        return f"hello {message}"

    @classmethod
    def build(cls) -> Greeter:
        return Greeter()


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


FORMS: list[Any] = [
    pytest.param(Greeter, (), {}, id="class"),
    pytest.param(Greeter, ("hello",), {}, id="class-args"),
    pytest.param(Greeter, (), {"greeting": "hello"}, id="class-kwargs"),
    pytest.param(Greeter, ("hello",), {"mark": ""}, id="class-both"),
    pytest.param(maker, (), {}, id="maker"),
    pytest.param(maker_of, ("hello", ""), {}, id="maker-args"),
    pytest.param(maker_of, ("hello",), {"mark": ""}, id="maker-both"),
    pytest.param(keyword_maker, (), {"greeting": "hello"}, id="maker-kwargs"),
    pytest.param(lambda: Greeter("hello"), (), {}, id="lambda"),
    pytest.param(lambda greeting: Greeter(greeting), ("hello",), {}, id="lambda-args"),
    pytest.param(functools.partial(Greeter, "hello"), (), {}, id="partial-class"),
    pytest.param(functools.partial(Greeter, mark=""), ("hello",), {}, id="partial-class-args"),
    pytest.param(functools.partial(maker_of, "hello"), ("",), {}, id="partial-maker"),
    pytest.param(functools.partial(three, "hello"), (), {}, id="partial-handler"),
    pytest.param(functools.partial(handler_with_more, greeting="hello"), (), {}, id="partial-handler-kwargs"),
    pytest.param(handler, (), {}, id="handler"),
    pytest.param(async_handler, (), {}, id="async-handler"),
    pytest.param(handler_with_more, (), {}, id="handler-defaults"),
    pytest.param(lambda ctx, message: f"hello {message}", (), {}, id="lambda-handler"),
    pytest.param(Handling().method, (), {}, id="method-handler"),
    pytest.param(Handling(), (), {}, id="callable-object"),
    pytest.param(Handling.static, (), {}, id="static-handler"),
    pytest.param(Handling().make, (), {}, id="method-maker"),
    pytest.param(Handling.build, (), {}, id="classmethod-maker"),
    pytest.param(logged(handler), (), {}, id="decorated-handler"),
    pytest.param(logged(maker), (), {}, id="decorated-maker"),
    pytest.param(Behaviors.receive(handler), (), {}, id="behavior"),
    pytest.param(Behaviors.receive(async_handler), (), {}, id="async-behavior"),
    pytest.param(Behaviors.setup(lambda ctx: Behaviors.receive(handler)), (), {}, id="setup"),
    pytest.param(props(Greeter), (), {}, id="props"),
    pytest.param(props(Greeter, "hello", mark=""), (), {}, id="props-args"),
    pytest.param(props(maker_of, "hello", mark=""), (), {}, id="props-maker"),
    pytest.param(props(functools.partial(Greeter, "hello")), (), {}, id="props-partial"),
]


@pytest.mark.parametrize(("factory", "args", "kwargs"), FORMS)
@pytest.mark.parametrize("place", ["system", "context"])
async def test_it_may_be_spawned(system: ActorSystem, factory: Any, args: Any, kwargs: Any, place: str) -> None:
    def parent(ctx: Context, message: str) -> Any:
        return ctx.spawn(factory, *args, **kwargs)

    if place == "system":
        ref = system.spawn(factory, *args, **kwargs)
    else:
        owner = system.spawn(parent)
        ref = await owner.ask("spawn")
        assert ref.parent == owner
    assert await ref.ask("world") == "hello world"


async def test_one_factory_makes_many_actors_each_its_own(system: ActorSystem) -> None:
    made = props(Greeter, "hello")
    refs = [system.spawn(made) for _ in range(3)]
    assert len(set(refs)) == 3
    for ref in refs:
        assert await ref.ask("x") == "hello x"


async def test_props_carry_keywords_of_spawns_own_names(system: ActorSystem) -> None:
    given = props(Demanding, name="Ada", parent="Byron", mailbox="a box")
    ref = system.spawn(given, name="actor", mailbox=MailboxConfig(capacity=3))
    assert ref.name == "actor"
    assert await ref.ask("x") == "Ada of Byron, a box: x"


def test_props_keep_their_arguments_and_show_them() -> None:
    given = props(Greeter, "hi", mark="!")
    assert isinstance(given, Props)
    assert repr(given) == "props(Greeter, 'hi', mark='!')"


async def test_a_parameterized_class_may_be_spawned_like_the_class_itself(system: ActorSystem) -> None:
    class Box(Actor[T, T]):
        def __init__(self, first: Any = None) -> None:
            self.held = first

        def receive(self, message: T) -> T:
            self.held, before = message, self.held
            return before  # type: ignore[no-any-return]

    assert await system.spawn(Box[int], 3).ask(4) == 3
    assert await system.spawn(Box[int]).ask(4) is None


@pytest.mark.parametrize(
    ("factory", "kind"),
    [(Greeter, "Greeter"), (handler, "handler"), (maker, "maker"), (props(Greeter, "x"), "Greeter")],
)
async def test_a_nameless_actor_is_called_after_its_kind_and_a_number(
    system: ActorSystem, factory: Any, kind: str
) -> None:
    first, second = system.spawn(factory), system.spawn(factory)
    for ref in (first, second):
        before, dollar, number = ref.name.partition("$")
        assert (before, dollar) == (kind, "$")
        assert number
    assert first.name != second.name
