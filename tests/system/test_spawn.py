"""Spawning: names, parents, what is refused, and threads that spawn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
    SystemStopped,
    props,
)
from greenroom.errors import GreenroomError, InvalidName, NameTaken, NotAnActor
from greenroom.exits import ExitKind
from tests.conformance.lives import actor_at

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
    # J4, M4
    assert await spawn(system).ask("world") == answer
    child = await system.spawn(Parent).ask(spawn)
    assert await child.ask("world") == answer
    assert child.parent is not None


async def test_props_can_be_spawned_again_and_again(system: ActorSystem) -> None:  # J4, M4
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


async def test_nothing_of_the_actor_runs_inside_spawn(system: ActorSystem) -> None:  # J4, M4
    marks: list[str] = []
    for given in spying(marks):
        ref = system.spawn(*given)
        ref.tell("early")
        assert (ref.state, ref.is_alive, marks) == (State.CREATED, True, [])
        await system.settle()
        assert ref.state is State.RUNNING
        assert marks[-1] == "receive"
        marks.clear()


async def test_nothing_of_a_child_runs_inside_its_parents_handler(system: ActorSystem) -> None:  # J4, M4
    marks: list[str] = []

    def spawn_all(ctx: Context) -> list[str]:
        for given in spying(marks):
            ctx.spawn(*given).tell("early")
        return list(marks)

    assert await system.spawn(Parent).ask(spawn_all) == []
    await system.settle()
    assert marks.count("receive") == 5


async def test_what_is_told_before_the_start_is_handled_after_it_in_order(system: ActorSystem) -> None:
    # case 54, J4, M4
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


async def test_a_constructor_that_does_not_take_its_arguments_fails_the_start(system: ActorSystem) -> None:
    # case 53, J4, M4
    for ref in (system.spawn(Greeter, 1, 2, 3), system.spawn(Greeter, volume=11)):  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            await ref.started()
        assert (await ref.terminated()).kind is ExitKind.FAIL
    assert system.actors() == []


@pytest.mark.parametrize("made", [None, "greeter", Greeter, 5, object()])
async def test_a_factory_that_makes_no_actor_fails_the_start(system: ActorSystem, made: Any) -> None:  # J4, J9, M4
    ref: ActorRef[Any, Any] = system.spawn(lambda: made)
    with pytest.raises(NotAnActor):
        await ref.started()
    assert (await ref.terminated()).kind is ExitKind.FAIL


# -- what is handed down


@pytest.mark.config(env={"a": "config", "b": "config"})
async def test_env_is_handed_down_from_parent_to_child_and_each_may_add_to_it(system: ActorSystem) -> None:  # J4, M4
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


async def test_the_mailbox_and_the_drain_of_a_parent_are_not_its_childrens(system: ActorSystem) -> None:  # J4, M4
    parent = system.spawn(Parent, mailbox=MailboxConfig(capacity=1, overflow=Overflow.DROP_NEW), drain=Drain.DROP)
    child = await parent.ask(lambda ctx: ctx.spawn(Greeter))
    for _ in range(10):
        child.tell("x")
    child.stop()
    await child.terminated()
    ledger = system.ledger(child)
    assert (ledger.sent, ledger.dropped, ledger.dead_lettered) == (10, 0, 10)


# -- kin


async def test_a_child_knows_its_parent_and_the_parent_its_children(system: ActorSystem) -> None:  # J4, M4
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


async def test_an_explicit_parent_is_the_parent_in_every_way(system: ActorSystem) -> None:  # J4, M4
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


async def test_children_can_be_spawned_in_hooks(system: ActorSystem) -> None:  # J4, M4
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


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else message

    def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        pass


async def echo(ctx: Context, message: Any) -> Any:
    return message


async def end(ref: ActorRef[Any, Any]) -> None:
    ref.stop()
    await ref.terminated()


NAMES = ["a", "A", "two words", "ünïcode-日本", ".", "..", "*", "0", "-1", "a.b", "a:b@c", "\t", "x" * 10_000, "None"]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
async def test_an_actor_is_found_by_its_name_its_path_and_its_id(system: ActorSystem, name: str) -> None:  # J8
    ref = system.spawn(Echo, name=name)
    child = system.spawn(Echo, name=name, parent=ref)
    assert (ref.name, ref.path, child.path) == (name, f"/{name}", f"/{name}/{name}")
    for wanted, found in ((name, ref), (f"/{name}", ref), (ref.id, ref), (child.path, child), (child.id, child)):
        assert system.actor(wanted) == found
    assert str(child) == child.path
    assert child.path in repr(child)


@pytest.mark.parametrize("name", ["", "/", "a/b", "/a", "a/", "$", "a$1", 5, 1.5, b"a", ["a"], True])
async def test_a_name_that_would_be_mistaken_for_something_else_is_refused(system: ActorSystem, name: Any) -> None:
    # J8
    with pytest.raises(InvalidName) as caught:
        system.spawn(Echo, name=name)
    assert caught.value.code == "invalid_name"
    assert isinstance(caught.value, ValueError)
    assert system.actors() == []


async def test_what_was_sent_by_name_or_id_arrives(system: ActorSystem) -> None:  # J8
    ref = system.spawn(Echo, name="echo")
    for wanted in ("echo", "/echo", ref.id):
        found = actor_at(system, wanted)
        assert hash(found) == hash(ref)
        assert await found.ask("hello") == "hello"
    assert system.ledger(ref).handled == 3


async def test_a_name_is_unique_among_siblings_and_only_there(system: ActorSystem) -> None:  # case 60, J8
    top = system.spawn(Echo, name="same")
    child = system.spawn(Echo, name="same", parent=top)
    for parent, path in ((None, "/same"), (top, "/same/same")):
        with pytest.raises(NameTaken) as caught:
            system.spawn(Echo, name="same", parent=parent)
        assert (caught.value.path, caught.value.code) == (path, "name_taken")
    cousin = system.spawn(Echo, name="same", parent=child)
    assert system.actor("/same/same/same") == cousin


@pytest.mark.parametrize("way", [ActorRef.stop, ActorRef.kill, lambda ref: ref.fail(ValueError("bad"))])
async def test_a_name_is_free_again_when_its_actor_has_ended(system: ActorSystem, way: Any) -> None:  # case 60, J8
    old = system.spawn(Echo, name="name")
    way(old)
    await old.terminated()
    assert system.actor("name") is None
    new = system.spawn(Echo, name="name")
    assert system.actor("name") == new != old
    assert system.actor(old.id) is None
    assert (old.name, old.path) == ("name", "/name")
    old.tell("to nobody")
    assert system.ledger(new).sent == 0


async def test_a_name_is_taken_until_the_actor_has_ended(system: ActorSystem) -> None:  # J8
    gate = asyncio.Event()

    class Slow(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            pass

        async def post_stop(self) -> None:
            await gate.wait()

    old = system.spawn(Slow, name="name")
    await old.started()
    old.stop()
    await asyncio.sleep(0)
    with pytest.raises(NameTaken):
        system.spawn(Echo, name="name")
    assert system.actor("name") == old
    gate.set()
    await old.terminated()
    assert system.spawn(Echo, name="name").is_alive


@pytest.mark.parametrize("watches", ["watch", "message", "child"])
async def test_a_name_is_free_before_anybody_is_told_of_the_end(system: ActorSystem, watches: str) -> None:
    # case 60, J8
    successors: list[ActorRef[Any, Any]] = []
    done = asyncio.Event()

    class Keeper(Actor[Any, Any]):
        def pre_start(self) -> None:
            first = self.ctx.spawn(Echo, name="name")
            if watches == "watch":
                self.ctx.watch(first)
            elif watches == "message":
                self.ctx.watch(first, "it ended")
            first.stop()

        def receive(self, message: Any) -> None:
            self.succeed(message == "it ended")

        def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            self.succeed(watches == "watch")

        def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            self.succeed(watches == "child")

        def succeed(self, expected: bool) -> None:
            if expected:
                successors.append(self.ctx.spawn(Echo, name="name"))
                done.set()

    keeper = system.spawn(Keeper, name="keeper")
    await done.wait()
    assert system.actor("/keeper/name") == successors[0]
    assert keeper.is_alive


# -- without a name


async def test_a_nameless_actor_is_called_after_its_kind_and_a_number(system: ActorSystem) -> None:  # J8
    for factory, kind in ((Echo, "Echo"), (echo, "echo"), (lambda ctx, message: None, "<lambda>")):
        refs = [system.spawn(factory) for _ in range(3)]
        assert len({ref.name for ref in refs}) == 3
        for ref in refs:
            label, mark, number = ref.name.partition("$")
            assert (label, mark) == (kind, "$")
            assert number.isdecimal()
            assert ref.path == f"/{ref.name}"


async def test_a_nameless_actor_is_found_by_its_name_and_path(system: ActorSystem) -> None:  # J8
    parent = system.spawn(Echo)
    child = await parent.ask(lambda ctx: ctx.spawn(Echo))
    named = await child.ask(lambda ctx: ctx.spawn(echo, name="named"))
    nameless = await named.ask("x") and system.spawn(echo, parent=named)
    for ref in (parent, child, named, nameless):
        assert system.actor(ref.path) == ref
        assert system.actor(ref.id) == ref
    assert system.actor(parent.name) == parent
    assert system.actor(child.name) is None  # not at the top
    assert system.actor(f"/{child.name}") is None
    assert system.actor(f"{parent.path}/{nameless.name}") is None  # another's child


async def test_the_name_of_a_nameless_actor_never_finds_its_successor(system: ActorSystem) -> None:  # J14, J8
    old = [system.spawn(Echo) for _ in range(5)]
    for ref in old:
        await end(ref)
    new = [system.spawn(Echo) for _ in range(5)]
    assert not {ref.name for ref in old} & {ref.name for ref in new}
    for ref in old:
        assert system.actor(ref.name) is None
        assert system.actor(ref.id) is None
    for ref in new:
        assert system.actor(ref.name) == ref


NOBODY = [
    "", "/", "//", "nobody", "/nobody", "/here/nobody", "/nobody/here", "/here/", "/here//child", "//here",
    "here/child/more", "/child", "Here", "here ", "Echo", "Echo$", "$", "$0", "Echo$x", "Echo$-1", "Echo$1.x",
    "Echo$1.", "Echo$0.0", "Echo$99999", "Echo$99999999999999999999999999", "Echo$0.99999999999999999999999999",
    "Echo$²", "Other$0",
    -1, 1 << 62, 1 << 63, 1 << 64, 1 << 200, -(1 << 200),
]  # fmt: skip


@pytest.mark.parametrize("wanted", NOBODY)
async def test_what_nobody_is_called_finds_nobody(system: ActorSystem, wanted: Any) -> None:  # J8
    here = system.spawn(Echo, name="here")
    system.spawn(Echo, name="child", parent=here)
    assert system.actor(wanted) is None


@pytest.mark.parametrize("wanted", [None, 1.5, b"here", ["here"], Echo])
async def test_actors_are_found_by_texts_and_numbers_only(system: ActorSystem, wanted: Any) -> None:  # J8
    with pytest.raises(TypeError):
        system.actor(wanted)


async def test_actors_are_found_from_other_threads_too(system: ActorSystem) -> None:  # J8
    ref = system.spawn(Echo, name="here")
    assert await asyncio.to_thread(system.actor, "here") == ref
    assert await asyncio.to_thread(system.actor, ref.id) == ref
    assert await asyncio.to_thread(system.actor, "nobody") is None
    assert await asyncio.to_thread(system.actors) == [ref]


async def test_a_very_long_line_of_descent_has_a_path(system: ActorSystem) -> None:  # J8
    ref: ActorRef[Any, Any] | None = None
    for depth in range(3000):
        ref = system.spawn(echo, name=str(depth), parent=ref)
    assert ref is not None
    assert ref.path == "/" + "/".join(str(depth) for depth in range(3000))
    assert system.actor(ref.path) == ref
    assert await ref.ask("hello") == "hello"


class Obliging(Actor[Any, Any]):
    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting

    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else f"{self.greeting} {message}"


class Deaf(Actor[Any, Any]):
    """Without `receive` it could not handle any message."""


class OddHook(Actor[Any, Any]):
    def receive(self, message: Any) -> None:
        pass

    def pre_start(self, why: str) -> None:  # type: ignore[override]
        pass


class OddReceive(Actor[Any, Any]):
    def receive(self) -> None:  # type: ignore[override]
        pass


class NoActor:
    pass


def trace(system: ActorSystem) -> tuple[Any, ...]:
    """Everything that can be seen of a system from outside."""
    snapshot = system.snapshot()
    return (
        snapshot.actors,
        snapshot.spawned,
        snapshot.terminated,
        snapshot.dead_letters,
        snapshot.timers,
        snapshot.ledger,
        system.tree(),
        [ref.id for ref in system.actors()],
    )


REFUSED: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = [
    ("name_taken", Obliging, (), {"name": "taken"}),
    ("invalid_name", Obliging, (), {"name": ""}),
    ("invalid_name", Obliging, (), {"name": "a/b"}),
    ("invalid_name", Obliging, (), {"name": "a$1"}),
    ("invalid_name", Obliging, (), {"name": 5}),
    ("invalid_name", Obliging, (), {"name": b"bytes"}),
    ("config", Obliging, (), {"name": "new", "mailbox": 5}),
    ("config", Obliging, (), {"name": "new", "mailbox": {"capacity": 5}}),
    ("config", Obliging, (), {"name": "new", "mailbox": MailboxConfig}),
    ("config", Obliging, (), {"name": "new", "drain": "drop"}),
    ("config", Obliging, (), {"name": "new", "env": 5}),
    ("config", Obliging, (), {"name": "new", "env": [("a", 1)]}),
    ("unknown_dispatcher", Obliging, (), {"name": "new", "dispatcher": "nowhere"}),
    ("unknown_dispatcher", Obliging, (), {"name": "new", "dispatcher": 5}),
    ("not_an_actor", Obliging("an instance"), (), {"name": "new"}),
    ("not_an_actor", Obliging("an instance"), ("hi",), {"name": "new"}),
    ("not_an_actor", NoActor, (), {"name": "new"}),
    ("not_an_actor", NoActor(), (), {"name": "new"}),
    ("not_an_actor", int, (), {"name": "new"}),
    ("not_an_actor", None, (), {"name": "new"}),
    ("not_an_actor", 5, (), {"name": "new"}),
    ("not_an_actor", Deaf, (), {"name": "new"}),
    ("not_an_actor", Actor, (), {"name": "new"}),
    ("not_an_actor", OddHook, (), {"name": "new"}),
    ("not_an_actor", OddReceive, (), {"name": "new"}),
    ("not_an_actor", lambda message: None, (), {"name": "new"}),
    ("not_an_actor", lambda a, b, c: None, (), {"name": "new"}),
    ("not_an_actor", props(Obliging, "hi"), ("more",), {"name": "new"}),
    ("not_an_actor", props(Obliging, "hi"), (), {"name": "new", "greeting": "more"}),
    ("not_an_actor", props(Deaf), (), {"name": "new"}),
]


@pytest.mark.parametrize(("code", "factory", "args", "options"), REFUSED)
async def test_a_refused_spawn_leaves_no_trace(  # J4, M4
    system: ActorSystem, code: str, factory: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> None:  # J9
    def attempt(spawn: Any, **more: Any) -> None:
        with pytest.raises(GreenroomError) as caught:
            spawn(factory, *args, **options, **more)
        assert caught.value.code == code

    top = system.spawn(Obliging, name="taken")
    system.spawn(Obliging, name="taken", parent=top)
    await top.ask(lambda ctx: attempt(ctx.spawn))
    await system.settle()
    before = trace(system)
    attempt(system.spawn)
    attempt(system.spawn, parent=top)
    await asyncio.to_thread(attempt, system.spawn)
    assert trace(system) == before
    assert len(system.actors()) == system.snapshot().spawned == 2
    if options["name"] == "new":
        for parent in (None, top):
            assert await system.spawn(Obliging, name="new", parent=parent).ask("world") == "hello world"


async def test_an_instance_is_a_type_error_that_says_what_to_pass(system: ActorSystem) -> None:  # J4, J9, M4
    with pytest.raises(TypeError, match=r"spawn\(Obliging, \.\.\.\)"):
        system.spawn(Obliging("hi"))  # type: ignore[call-overload]


@pytest.mark.config(max_actors=2)
async def test_a_full_table_leaves_no_trace(system: ActorSystem) -> None:  # J4, J9, M4
    first = system.spawn(Obliging)
    last = system.spawn(Obliging)
    await system.settle()
    before = trace(system)
    for parent in (None, first):
        for name in (None, "new"):
            with pytest.raises(GreenroomError) as caught:
                system.spawn(Obliging, name=name, parent=parent, env={"a": 1})
            assert caught.value.code == "too_many_actors"
    assert trace(system) == before
    last.stop()
    await last.terminated()
    assert await system.spawn(Obliging, name="new", parent=first).ask("world") == "hello world"


@pytest.mark.parametrize("end", [ActorRef.stop, ActorRef.kill, lambda ref: ref.fail(ValueError())])
async def test_a_dead_actor_can_have_no_children(system: ActorSystem, end: Any) -> None:  # J4, J9, M4
    contexts: list[Context] = []
    parent = system.spawn(Obliging, name="parent")
    await parent.ask(contexts.append)
    end(parent)
    await parent.terminated()
    before = trace(system)
    for spawn in (lambda: system.spawn(Obliging, name="new", parent=parent), lambda: contexts[0].spawn(Obliging)):
        with pytest.raises(GreenroomError) as caught:
            spawn()
        assert caught.value.code == "actor_terminated"
    assert trace(system) == before


async def test_a_system_that_is_stopping_takes_in_nobody(system: ActorSystem) -> None:  # case 59, J4, J9, M4
    codes: list[str] = []

    class Late(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            pass

        def pre_stop(self) -> None:
            for spawn in (self.ctx.spawn, self.ctx.system.spawn):
                with pytest.raises(SystemStopped) as caught:
                    spawn(Obliging)
                codes.append(caught.value.code)

    await system.spawn(Late).started()
    await system.shutdown()
    assert codes == ["system_stopped"] * 2
    assert system.snapshot().spawned == 1


async def test_a_spawn_that_was_refused_is_not_counted_among_the_actors_of_the_report(system: ActorSystem) -> None:
    # J4, J9, M11, M4
    system.spawn(Obliging, name="taken")
    with pytest.raises(GreenroomError):
        system.spawn(Obliging, name="taken")
    await system.shutdown()
    assert system.report is not None
    assert (system.report.started, system.report.terminated, system.report.forced) == (1, 1, ())


async def in_threads(function: Callable[[], Any], count: int = 8) -> list[Any]:
    """What `function` returns on each of `count` threads that begin at once."""
    barrier = threading.Barrier(count)

    def work() -> Any:
        barrier.wait(DEADLINE)
        return function()

    with ThreadPoolExecutor(count) as pool:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(pool, work) for _ in range(count)))


async def test_an_actor_can_be_spawned_from_another_thread(system: ActorSystem) -> None:  # J4
    parent = system.spawn(Greeter, name="parent")

    def elsewhere() -> ActorRef[Any, Any]:
        with pytest.raises(NameTaken):
            system.spawn(Greeter, name="parent")
        return system.spawn(Greeter, "hi", name="child", parent=parent, env={"a": 1})

    child = await asyncio.to_thread(elsewhere)
    assert child.path == "/parent/child"
    assert await child.ask("thread") == "hi thread"


async def test_threads_that_spawn_at_once_get_an_actor_each(system: ActorSystem) -> None:  # J4
    batches = await in_threads(lambda: [system.spawn(Greeter) for _ in range(25)])
    refs = [ref for batch in batches for ref in batch]
    assert len({ref.id for ref in refs}) == 200
    assert sorted(ref.id for ref in system.actors()) == sorted(ref.id for ref in refs)
    assert system.snapshot().spawned == 200


async def test_of_many_threads_that_want_one_name_one_gets_it(system: ActorSystem) -> None:  # J4
    def claim() -> bool:
        try:
            system.spawn(Greeter, name="the one")
        except NameTaken:
            return False
        return True

    assert sorted(await in_threads(claim)) == [False] * 7 + [True]
    assert len(system.actors()) == 1
