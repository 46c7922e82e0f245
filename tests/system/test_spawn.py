"""Spawning: what can be spawned, what is handed down, where from; and that nothing runs inside it (J4, M4)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Behavior,
    Behaviors,
    Context,
    Drain,
    MailboxConfig,
    Overflow,
    State,
    props,
)
from greenroom.errors import NotAnActor
from greenroom.exits import ExitKind

DEADLINE = 120.0


class Greeter(Actor[str, str]):
    def __init__(self, greeting: str = "hello", *, mark: str = "") -> None:
        self.greeting = greeting
        self.mark = mark

    def receive(self, message: str) -> str:
        return f"{self.greeting} {message}{self.mark}"


class Named(Actor[str, str]):
    """Its constructor has keywords of the same names as spawn's own."""

    def __init__(self, name: str, parent: str, env: str) -> None:
        self.given = (name, parent, env)

    def receive(self, message: str) -> str:
        return " ".join(self.given)


class Parent(Actor[Any, Any]):
    """Calls what it is sent with its context, and answers with the result."""

    def receive(self, message: Any) -> Any:
        return message(self.ctx)

    def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        pass


def make_greeter(greeting: str = "made") -> Greeter:
    return Greeter(greeting)


class Maker:
    """A callable that is no function."""

    def __call__(self) -> Greeter:
        return Greeter("called")

    def handle(self, ctx: Context, message: str) -> str:
        return f"bound {message}"

    @classmethod
    def build(cls, greeting: str) -> Greeter:
        return Greeter(greeting)


def handler(ctx: Context, message: str) -> str:
    return f"handled {message}"


async def async_handler(ctx: Context, message: str) -> str:
    await asyncio.sleep(0)
    return f"awaited {message}"


def setup(ctx: Context) -> Behavior:
    return Behaviors.receive(lambda ctx, message: ctx.reply(f"set up {message}"))


SPAWNABLE = [
    (lambda s: s.spawn(Greeter), "hello world"),
    (lambda s: s.spawn(Greeter, "hi"), "hi world"),
    (lambda s: s.spawn(Greeter, greeting="hi", mark="!"), "hi world!"),
    (lambda s: s.spawn(Greeter, "hi", mark="!", name="greeter", mailbox=MailboxConfig(capacity=5)), "hi world!"),
    (lambda s: s.spawn(make_greeter), "made world"),
    (lambda s: s.spawn(make_greeter, "by hand", name="greeter"), "by hand world"),
    (lambda s: s.spawn(lambda: Greeter("lambda")), "lambda world"),
    (lambda s: s.spawn(partial(Greeter, "part", mark="?")), "part world?"),
    (lambda s: s.spawn(Maker()), "called world"),
    (lambda s: s.spawn(Maker.build, "built"), "built world"),
    (lambda s: s.spawn(Maker().handle), "bound world"),
    (lambda s: s.spawn(handler), "handled world"),
    (lambda s: s.spawn(handler, name="handler", mailbox=MailboxConfig(capacity=5)), "handled world"),
    (lambda s: s.spawn(async_handler), "awaited world"),
    (lambda s: s.spawn(Behaviors.receive(handler)), "handled world"),
    (lambda s: s.spawn(Behaviors.receive(async_handler), name="behavior"), "awaited world"),
    (lambda s: s.spawn(Behaviors.setup(setup)), "set up world"),
    (lambda s: s.spawn(props(Greeter, "props", mark="!")), "props world!"),
    (lambda s: s.spawn(props(make_greeter, "kept"), name="props"), "kept world"),
    (lambda s: s.spawn(props(Named, name="a", parent="b", env="c"), name="named"), "a b c"),
]


@pytest.mark.parametrize(("spawn", "answer"), SPAWNABLE)  # J4, M4
async def test_whatever_makes_or_is_an_actor_can_be_spawned(system: ActorSystem, spawn: Any, answer: str) -> None:
    assert await spawn(system).ask("world") == answer
    child = await system.spawn(Parent).ask(spawn)
    assert await child.ask("world") == answer
    assert child.parent is not None


async def test_props_can_be_spawned_again_and_again(system: ActorSystem) -> None:
    kept = props(Greeter, "hi")
    refs = [system.spawn(kept) for _ in range(3)]
    assert len(set(refs)) == 3
    assert [await ref.ask("world") for ref in refs] == ["hi world"] * 3


def spying(marks: list[str]) -> list[tuple[Any, ...]]:
    """Every kind of thing that could run too early, each leaving a mark when it does."""

    class Spy(Actor[Any, Any]):
        def __init__(self) -> None:
            marks.append("constructor")

        def pre_start(self) -> None:
            marks.append("pre_start")

        def receive(self, message: Any) -> None:
            marks.append("receive")

    def make() -> Spy:
        marks.append("maker")
        return Spy()

    def begin(ctx: Context) -> Behavior:
        marks.append("setup")
        return Behaviors.receive(lambda ctx, message: marks.append("receive"))

    return [(Spy,), (make,), (props(Spy),), (Behaviors.setup(begin),), (lambda ctx, message: marks.append("receive"),)]


async def test_nothing_of_the_actor_runs_inside_spawn(system: ActorSystem) -> None:  # J4
    marks: list[str] = []
    for given in spying(marks):
        ref = system.spawn(*given)
        ref.tell("early")
        assert (ref.state, ref.is_alive, marks) == (State.CREATED, True, [])
        await system.settle()
        assert ref.state is State.RUNNING
        assert marks[-1] == "receive"
        marks.clear()


async def test_nothing_of_a_child_runs_inside_its_parents_handler(system: ActorSystem) -> None:  # J4
    marks: list[str] = []

    def spawn_all(ctx: Context) -> list[str]:
        for given in spying(marks):
            ctx.spawn(*given).tell("early")
        return list(marks)

    assert await system.spawn(Parent).ask(spawn_all) == []
    await system.settle()
    assert marks.count("receive") == 5


async def test_what_is_told_before_the_start_is_handled_after_it_in_order(system: ActorSystem) -> None:  # case 54
    seen: list[Any] = []

    class Slow(Actor[int, None]):
        async def pre_start(self) -> None:
            await asyncio.sleep(0)
            seen.append("pre_start")

        def receive(self, message: int) -> None:
            seen.append(message)

    ref = system.spawn(Slow)
    for number in range(5):
        ref.tell(number)
    await system.settle()
    assert seen == ["pre_start", 0, 1, 2, 3, 4]


async def test_a_constructor_that_does_not_take_its_arguments_fails_the_start(system: ActorSystem) -> None:  # case 53
    for ref in (system.spawn(Greeter, 1, 2, 3), system.spawn(Greeter, volume=11)):  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            await ref.started()
        assert (await ref.terminated()).kind is ExitKind.FAIL
    assert system.actors() == []


@pytest.mark.parametrize("made", [None, "greeter", Greeter, 5, object()])
async def test_a_factory_that_makes_no_actor_fails_the_start(system: ActorSystem, made: Any) -> None:  # J9
    ref: ActorRef[Any, Any] = system.spawn(lambda: made)
    with pytest.raises(NotAnActor):
        await ref.started()
    assert (await ref.terminated()).kind is ExitKind.FAIL


# -- what is handed down


@pytest.mark.config(env={"a": "config", "b": "config"})
async def test_env_is_handed_down_from_parent_to_child_and_each_may_add_to_it(system: ActorSystem) -> None:  # M4
    async def env_of(ref: ActorRef[Any, Any]) -> dict[str, Any]:
        return dict(await ref.ask(lambda ctx: ctx.env))

    top = system.spawn(Parent, env={"b": "top", "c": "top"})
    child = await top.ask(lambda ctx: ctx.spawn(Parent))
    given = {"c": "own"}
    own = await top.ask(lambda ctx: ctx.spawn(Parent, env=given))
    given["c"] = "changed later"
    grandchild = await own.ask(lambda ctx: ctx.spawn(Parent))
    adopted = system.spawn(Parent, parent=own, env={"d": "adopted"})
    assert await env_of(system.spawn(Parent)) == {"a": "config", "b": "config"}
    assert await env_of(top) == {"a": "config", "b": "top", "c": "top"}
    assert await env_of(child) == {"a": "config", "b": "top", "c": "top"}
    assert await env_of(own) == {"a": "config", "b": "top", "c": "own"}
    assert await env_of(grandchild) == {"a": "config", "b": "top", "c": "own"}
    assert await env_of(adopted) == {"a": "config", "b": "top", "c": "own", "d": "adopted"}
    assert system.config.env == {"a": "config", "b": "config"}


async def test_the_mailbox_and_the_drain_of_a_parent_are_not_its_childrens(system: ActorSystem) -> None:
    parent = system.spawn(Parent, mailbox=MailboxConfig(capacity=1, overflow=Overflow.DROP_NEW), drain=Drain.DROP)
    child = await parent.ask(lambda ctx: ctx.spawn(Greeter))
    for _ in range(10):
        child.tell("x")
    child.stop()
    await child.terminated()
    ledger = system.ledger(child)
    assert (ledger.sent, ledger.dropped, ledger.dead_lettered) == (10, 0, 10)


# -- kin


async def test_a_child_knows_its_parent_and_the_parent_its_children(system: ActorSystem) -> None:
    top = system.spawn(Parent, name="top")
    first = await top.ask(lambda ctx: ctx.spawn(Parent, name="first"))
    second = await top.ask(lambda ctx: ctx.spawn(Parent, name="second"))
    below = await first.ask(lambda ctx: ctx.spawn(Parent, name="below"))
    assert (top.parent, first.parent, below.parent) == (None, top, first)
    assert (top.path, first.path, below.path) == ("/top", "/top/first", "/top/first/below")
    assert await top.ask(lambda ctx: ctx.children) == [first, second]
    assert await below.ask(lambda ctx: (ctx.parent, ctx.children, ctx.name)) == (first, [], "below")
    first.stop()
    await first.terminated()
    assert not below.is_alive
    assert await top.ask(lambda ctx: ctx.children) == [second]


async def test_an_explicit_parent_is_the_parent_in_every_way(system: ActorSystem) -> None:  # J4
    parent = system.spawn(Parent, name="parent")
    child = system.spawn(Parent, parent=parent, name="child")  # the parent has not even started
    assert child.parent == parent
    assert child.path == "/parent/child"
    assert await parent.ask(lambda ctx: ctx.children) == [child]
    assert await child.ask(lambda ctx: ctx.parent) == parent
    await parent.ask(lambda ctx: ctx.stop(child))
    await child.terminated()
    again = system.spawn(Parent, parent=parent, name="child")
    parent.stop()
    await parent.terminated()
    assert not again.is_alive


async def test_children_can_be_spawned_in_hooks(system: ActorSystem) -> None:
    born: list[ActorRef[Any, Any]] = []
    refused: list[Exception] = []

    class Breeder(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            pass

        async def pre_start(self) -> None:
            born.append(self.ctx.spawn(Greeter, name="pre_start"))
            await asyncio.sleep(0)

        def post_start(self) -> None:
            born.append(self.ctx.spawn(Greeter, name="post_start"))

        def pre_stop(self) -> None:
            born.append(self.ctx.spawn(Greeter, name="pre_stop"))

        def post_stop(self) -> None:
            try:
                self.ctx.spawn(Greeter, name="post_stop")
            except ActorTerminated as error:
                refused.append(error)

    ref = system.spawn(Breeder, name="breeder")
    await ref.started()
    assert [child.path for child in born] == ["/breeder/pre_start", "/breeder/post_start"]
    ref.stop()
    await ref.terminated()
    assert [child.name for child in born] == ["pre_start", "post_start", "pre_stop"]
    assert [child.is_alive for child in born] == [False] * 3
    assert len(refused) == 1  # its children have ended: a new one would outlive it
