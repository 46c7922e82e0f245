"""What may not be spawned, and what each wrong thing is told: its name, and the remedy (J9)."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Behaviors, Context, ExitKind, handles, props
from greenroom.errors import GreenroomError, NotAnActor
from greenroom.testing import TestProbe
from tests.actor.greeters import Demanding, Greeter, handler, three


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
) -> None:
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
) -> None:
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
async def test_a_hook_may_take_more_than_it_is_given_if_it_need_not(system: ActorSystem, hook: str) -> None:
    def lenient(self: Any, *args: Any, **kwargs: Any) -> None: ...

    kind = type("Lenient", (Greeter,), {hook: lenient})
    assert await system.spawn(kind).ask("x") == "hello x"


async def test_a_receive_that_needs_no_self_works_or_is_refused(system: ActorSystem) -> None:
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
