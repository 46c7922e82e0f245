"""What may be spawned, in every form it comes in, and what may not: each wrong thing is told a remedy."""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from greenroom import Actor, ActorSystem, Behaviors, Context, ExitKind, MailboxConfig, Props, handles, props
from greenroom.errors import GreenroomError, NotAnActor
from greenroom.testing import TestProbe


class Greeter(Actor[str, str]):
    def __init__(self, greeting: str = "hello", *, mark: str = "") -> None:
        self.greeting = greeting
        self.mark = mark

    def receive(self, message: str) -> str:
        return f"{self.greeting} {message}{self.mark}"


class Demanding(Actor[str, str]):
    """Has keywords of the same names as spawn's own."""

    def __init__(self, name: str, parent: str = "nobody", mailbox: str = "none") -> None:
        self.text = f"{name} of {parent}, {mailbox}"

    def receive(self, message: str) -> str:
        return f"{self.text}: {message}"


def handler(ctx: Context, message: str) -> str:
    return f"hello {message}"


async def async_handler(ctx: Context, message: str) -> str:
    await asyncio.sleep(0)
    return f"hello {message}"


def handler_with_more(ctx: Context, message: str, greeting: str = "hello") -> str:
    return f"{greeting} {message}"


def three(greeting: str, ctx: Context, message: str) -> str:
    return f"{greeting} {message}"


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
async def test_it_may_be_spawned(system: ActorSystem, factory: Any, args: Any, kwargs: Any, place: str) -> None:  # J4
    def parent(ctx: Context, message: str) -> Any:
        return ctx.spawn(factory, *args, **kwargs)

    if place == "system":
        ref = system.spawn(factory, *args, **kwargs)
    else:
        owner = system.spawn(parent)
        ref = await owner.ask("spawn")
        assert ref.parent == owner
    assert await ref.ask("world") == "hello world"


async def test_props_carry_keywords_of_spawns_own_names(system: ActorSystem) -> None:  # J4
    given = props(Demanding, name="Ada", parent="Byron", mailbox="a box")
    ref = system.spawn(given, name="actor", mailbox=MailboxConfig(capacity=3))
    assert ref.name == "actor"
    assert await ref.ask("x") == "Ada of Byron, a box: x"


def test_props_keep_their_arguments_and_show_them() -> None:  # J4
    given = props(Greeter, "hi", mark="!")
    assert isinstance(given, Props)
    assert repr(given) == "props(Greeter, 'hi', mark='!')"


async def test_a_parameterized_class_may_be_spawned_like_the_class_itself(system: ActorSystem) -> None:  # J4
    class Box(Actor[T, T]):
        def __init__(self, first: Any = None) -> None:
            self.held = first

        def receive(self, message: T) -> T:
            self.held, before = message, self.held
            return before  # type: ignore[no-any-return]

    assert await system.spawn(Box[int], 3).ask(4) == 3
    assert await system.spawn(Box[int]).ask(4) is None


class Mute(Actor[Any, Any]): ...


class NoMethod(Actor[Any, Any]):
    receive = None  # type: ignore[assignment]


class NoMessage(Actor[Any, Any]):
    def receive(self) -> None: ...  # type: ignore[override]


class TwoMessages(Actor[Any, Any]):
    def receive(self, message: Any, other: Any) -> None: ...  # type: ignore[override]


class Plain:
    def receive(self, message: Any) -> None: ...


class Generating(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        yield message


class AsyncGenerating(Actor[Any, Any]):
    async def receive(self, message: Any) -> Any:
        yield message


class GeneratingHook(Actor[Any, Any]):
    def receive(self, message: Any) -> None: ...

    async def post_stop(self) -> Any:
        yield None


class GeneratingSnapshot(Actor[Any, Any]):
    def receive(self, message: Any) -> None: ...

    def snapshot(self) -> Any:
        yield None


def generate(ctx: Context, message: Any) -> Any:
    yield message


async def generate_async(ctx: Context, message: Any) -> Any:
    yield message


def generate_behavior(ctx: Context) -> Any:
    yield Behaviors.same


class GeneratingHandler:
    async def __call__(self, ctx: Context, message: Any) -> Any:
        yield message


def handles_by_generator() -> type[Actor]:
    class Handling(Actor[Any, Any]):
        @handles(int)
        async def count(self, message: int) -> Any:
            yield message

    return Handling


any_three: Any = three
REFUSED: list[Any] = [
    pytest.param(lambda: Greeter("hi"), ["Greeter", "instance", "pass the class and its arguments"], id="instance"),
    pytest.param(lambda: props(Greeter("hi")), ["Greeter", "instance", "pass the class"], id="instance-props"),  # type: ignore[arg-type]
    pytest.param(lambda: Mute, ["Mute", "receive", "@handles"], id="mute"),
    pytest.param(lambda: Actor, ["Actor", "receive"], id="the base itself"),
    pytest.param(lambda: NoMethod, ["NoMethod.receive", "method that takes the message"], id="no method"),
    pytest.param(lambda: NoMessage, ["NoMessage.receive", "message"], id="no message"),
    pytest.param(lambda: TwoMessages, ["TwoMessages.receive", "message"], id="two messages"),
    pytest.param(lambda: Plain, ["Plain", "Actor"], id="plain class"),
    pytest.param(lambda: Plain(), ["Plain", "Actor"], id="plain object"),
    pytest.param(lambda: None, ["None", "Actor"], id="None"),
    pytest.param(lambda: 42, ["42", "Actor"], id="number"),
    pytest.param(lambda: "Greeter", ["'Greeter'", "Actor"], id="text"),
    pytest.param(lambda: lambda message: None, ["(ctx, message)", "1 argument"], id="one argument"),
    pytest.param(lambda: three, ["three", "(ctx, message)", "3 arguments"], id="three arguments"),
    pytest.param(lambda: functools.partial(any_three, 1, 2), ["(ctx, message)"], id="partial of a handler"),
    pytest.param(lambda: Generating, ["Generating.receive", "generator", "tell"], id="generator"),
    pytest.param(lambda: AsyncGenerating, ["AsyncGenerating.receive", "async generator", "tell"], id="async generator"),
    pytest.param(lambda: GeneratingHook, ["GeneratingHook.post_stop", "async generator"], id="generator as hook"),
    pytest.param(lambda: GeneratingSnapshot, ["GeneratingSnapshot.snapshot"], id="generator as snapshot"),
    pytest.param(lambda: generate, ["generate ", "generator", "tell"], id="generator function"),
    pytest.param(lambda: generate_async, ["generate_async ", "async generator"], id="async generator function"),
    pytest.param(lambda: functools.partial(generate_async), ["generate_async "], id="partial of a generator"),
    pytest.param(lambda: GeneratingHandler(), ["GeneratingHandler", "async generator"], id="generator object"),
    pytest.param(lambda: Behaviors.receive(generate_async), ["generate_async "], id="generator as behavior"),
    pytest.param(lambda: Behaviors.receive(handler, on_signal=generate), ["generate "], id="generator for signals"),
    pytest.param(lambda: Behaviors.setup(generate_behavior), ["generate_behavior "], id="generator as setup"),
    pytest.param(handles_by_generator, ["Handling.count", "async generator"], id="generator with @handles"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED)
@pytest.mark.parametrize("place", ["system", "context"])
async def test_it_is_refused_by_spawn_with_a_remedy(
    system: ActorSystem, given: Callable[[], Any], words: list[str], place: str
) -> None:  # J9
    def parent(ctx: Context, message: str) -> Any:
        try:
            return ctx.spawn(given())
        except Exception as exc:
            return exc

    if place == "system":
        with pytest.raises(NotAnActor) as caught:
            system.spawn(given(), name="wanted")
        error: Any = caught.value
        assert system.actors() == []
    else:
        owner = system.spawn(parent)
        error = await owner.ask("spawn")
        assert system.actors() == [owner]
    assert isinstance(error, NotAnActor)
    assert isinstance(error, TypeError)
    assert error.code == "not_an_actor"
    for word in words:
        assert word in str(error)
    system.spawn(Greeter, name="wanted")  # the name was not kept


@pytest.mark.parametrize(
    ("factory", "args", "words"),
    [
        (props(Greeter, "hi"), ("again",), ["props(Greeter, 'hi')", "arguments already"]),
        (Behaviors.receive(handler), (1,), ["Behaviors.receive(handler)", "no arguments"]),
    ],
)
async def test_arguments_for_what_takes_none_are_refused(
    system: ActorSystem, factory: Any, args: Any, words: list[str]
) -> None:  # J9
    with pytest.raises(NotAnActor) as caught:
        system.spawn(factory, *args)
    for word in words:
        assert word in str(caught.value)


HOOKS = {
    "pre_start": "(self)",
    "post_start": "(self)",
    "pre_stop": "(self)",
    "post_stop": "(self)",
    "pre_restart": "(self, cause)",
    "post_restart": "(self)",
    "on_terminated": "(self, ref, cause)",
    "on_child_terminated": "(self, ref, cause)",
    "on_signal": "(self, signal)",
}


@pytest.mark.parametrize("hook", list(HOOKS))
@pytest.mark.parametrize("suspends", [False, True])
@pytest.mark.parametrize("count", [0, 5])
async def test_a_hook_with_a_wrong_signature_is_refused_by_spawn(
    system: ActorSystem, hook: str, suspends: bool, count: int
) -> None:  # J9
    def none() -> None: ...

    def many(self: Any, one: Any, two: Any, three: Any, four: Any) -> None: ...

    async def async_none() -> None: ...

    async def async_many(self: Any, one: Any, two: Any, three: Any, four: Any) -> None: ...

    method = {(0, False): none, (5, False): many, (0, True): async_none, (5, True): async_many}[count, suspends]
    kind = type("Crooked", (Greeter,), {hook: method})
    for _ in range(2):  # the second time as well
        with pytest.raises(NotAnActor) as caught:
            system.spawn(kind)
        assert caught.value.code == "not_an_actor"
        assert f"Crooked.{hook}" in str(caught.value)
        assert HOOKS[hook] in str(caught.value)  # how it should be
    assert system.actors() == []


@pytest.mark.parametrize("hook", list(HOOKS))
async def test_a_hook_may_take_more_than_it_is_given_if_it_need_not(system: ActorSystem, hook: str) -> None:  # J9
    def lenient(self: Any, *args: Any, **kwargs: Any) -> None: ...

    kind = type("Lenient", (Greeter,), {hook: lenient})
    assert await system.spawn(kind).ask("x") == "hello x"


async def test_a_receive_that_needs_no_self_works_or_is_refused(system: ActorSystem) -> None:  # J9
    class Static(Actor[str, str]):
        @staticmethod
        def receive(message: str) -> str:  # pyright: ignore
            return f"hello {message}"

    class Classy(Actor[str, str]):
        @classmethod
        def receive(cls, message: str) -> str:  # pyright: ignore
            return f"hello {message}"

    for kind in (Static, Classy):
        try:
            ref = system.spawn(kind)
        except NotAnActor:
            continue
        assert await ref.ask("x") == "hello x"


# What is found out only when the actor is made
class Abstract(Actor[Any, Any], ABC):
    @abstractmethod
    def work(self) -> None: ...

    def receive(self, message: Any) -> None: ...


async def async_maker() -> Greeter:
    return Greeter()


def making_nothing() -> Any:
    return None


def making_a_class() -> Any:
    return Greeter


def making_text() -> Any:
    return "an actor"


def raising() -> Greeter:
    raise LookupError("no greeting")


loud: Any = Greeter
LATE: list[Any] = [
    pytest.param(making_nothing, (), NotAnActor, ["making_nothing", "None", "must return"], id="nothing"),
    pytest.param(making_a_class, (), NotAnActor, ["making_a_class", "Greeter", "must return an instance"], id="class"),
    pytest.param(making_text, (), NotAnActor, ["making_text", "'an actor'", "must return"], id="text"),
    pytest.param(async_maker, (), NotAnActor, ["async_maker", "async", "pre_start"], id="async"),
    pytest.param(Greeter, (1, 2, 3), TypeError, ["Greeter", "argument"], id="too many"),
    pytest.param(Demanding, (), TypeError, ["Demanding", "argument", "name"], id="too few"),
    pytest.param(functools.partial(loud, volume=3), (), TypeError, ["Greeter", "volume"], id="unknown"),
    pytest.param(Abstract, (), TypeError, ["Abstract", "work"], id="abstract"),
    pytest.param(raising, (), LookupError, ["no greeting"], id="raising"),
]


@pytest.mark.parametrize(("factory", "args", "error", "words"), LATE)
async def test_what_cannot_be_made_fails_its_start_and_leaves_no_zombie(  # case 53, J9
    system: ActorSystem, factory: Any, args: Any, error: type[Exception], words: list[str]
) -> None:
    probe = TestProbe(system)
    ref = system.spawn(factory, *args, name="wanted")
    await probe.watch(ref)
    ref.tell("never handled")
    with pytest.raises(error) as caught:
        await ref.started()
    for word in words:
        assert word in str(caught.value)
    if error is NotAnActor:
        assert isinstance(caught.value, GreenroomError)
        assert caught.value.code == "not_an_actor"
    notice = await probe.expect_terminated(ref)
    assert notice.reason.kind is ExitKind.FAIL
    assert isinstance(notice.cause, error)
    assert system.actors() == [probe.ref]
    assert system.actor("wanted") is None
    assert [letter.message for letter in system.dead_letters.recent()] == ["never handled"]


async def test_an_actor_made_by_a_function_is_held_to_the_same_rules(system: ActorSystem) -> None:  # J9
    """Its class is first seen when it is made."""

    class Crooked(Greeter):
        def pre_start(self, extra: Any) -> None: ...  # type: ignore[override]

    for made, words in ((Crooked, "Crooked.pre_start"), (Mute, "Mute")):
        with pytest.raises(NotAnActor, match=words):
            await system.spawn(functools.partial(made)).started()
    await system.settle()
    assert system.actors() == []


async def test_a_generator_is_refused_by_become_with_a_remedy(system: ActorSystem) -> None:  # J9
    def receive(ctx: Context, message: Any) -> None:
        with pytest.raises(NotAnActor, match="generate is a generator function"):
            ctx.become(generate)

    ref = system.spawn(receive)
    await ref.ask("first")
    await ref.ask("second")  # it is what it was


def count(ctx: Context, message: Any) -> Any:
    yield message


async def count_async(ctx: Context, message: Any) -> Any:
    yield message


async def count_later(ctx: Context, message: Any) -> Any:
    return count(ctx, message)


@pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned"])
@pytest.mark.parametrize(
    "made",
    [
        lambda ctx, message: count(ctx, message),
        lambda ctx, message: count_async(ctx, message),
        count_later,
        Behaviors.receive(lambda ctx, message: count(ctx, message)),
    ],
)
async def test_a_told_handler_that_returns_a_generator_fails_and_is_told_why(
    system: ActorSystem, made: Any, dispatcher: str
) -> None:  # J9
    ref = system.spawn(made, name="counter", dispatcher=dispatcher)
    generator = await ref.ask("x")  # an asker may have use for it
    assert hasattr(generator, "gi_frame") or hasattr(generator, "ag_frame")
    ref.tell("x")
    reason = await ref.terminated()
    assert isinstance(reason.cause, NotAnActor)
    for word in ("/counter returned the generator count", "which nobody runs", "`tell`"):
        assert word in str(reason.cause)
    assert system.ledger(ref).failed == 1


@pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned"])
async def test_a_hook_that_returns_a_generator_has_failed(system: ActorSystem, dispatcher: str) -> None:  # J9
    class Wrapped(Greeter):
        pre_start: Any = functools.partialmethod(lambda self, ctx: count(ctx, None), None)

    ref = system.spawn(Wrapped, name="wrapped", dispatcher=dispatcher)
    reason = await ref.terminated()
    assert isinstance(reason.cause, NotAnActor)
    assert "pre_start of /wrapped returned the generator count" in str(reason.cause)
