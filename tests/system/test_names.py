"""Names, paths and ids: how actors are called, and how they are found (J8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context
from greenroom.errors import InvalidName, NameTaken


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
    with pytest.raises(InvalidName) as caught:
        system.spawn(Echo, name=name)
    assert caught.value.code == "invalid_name"
    assert isinstance(caught.value, ValueError)
    assert system.actors() == []


async def test_what_was_sent_by_name_or_id_arrives(system: ActorSystem) -> None:  # J8
    ref = system.spawn(Echo, name="echo")
    for wanted in ("echo", "/echo", ref.id):
        found = system.actor(wanted)
        assert found is not None
        assert hash(found) == hash(ref)
        assert await found.ask("hello") == "hello"
    assert system.ledger(ref).handled == 3


async def test_a_name_is_unique_among_siblings_and_only_there(system: ActorSystem) -> None:  # case 60
    top = system.spawn(Echo, name="same")
    child = system.spawn(Echo, name="same", parent=top)
    for parent, path in ((None, "/same"), (top, "/same/same")):
        with pytest.raises(NameTaken) as caught:
            system.spawn(Echo, name="same", parent=parent)
        assert (caught.value.path, caught.value.code) == (path, "name_taken")
    cousin = system.spawn(Echo, name="same", parent=child)
    assert system.actor("/same/same/same") == cousin


@pytest.mark.parametrize("way", [ActorRef.stop, ActorRef.kill, lambda ref: ref.fail(ValueError("bad"))])
async def test_a_name_is_free_again_when_its_actor_has_ended(system: ActorSystem, way: Any) -> None:  # case 60
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


async def test_a_name_is_taken_until_the_actor_has_ended(system: ActorSystem) -> None:
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
async def test_a_name_is_free_before_anybody_is_told_of_the_end(system: ActorSystem, watches: str) -> None:  # case 60
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


async def test_a_nameless_actor_is_called_after_its_kind_and_a_number(system: ActorSystem) -> None:
    for factory, kind in ((Echo, "Echo"), (echo, "echo"), (lambda ctx, message: None, "<lambda>")):
        refs = [system.spawn(factory) for _ in range(3)]
        assert len({ref.name for ref in refs}) == 3
        for ref in refs:
            label, mark, number = ref.name.partition("$")
            assert (label, mark) == (kind, "$")
            assert number.isdecimal()
            assert ref.path == f"/{ref.name}"


async def test_a_nameless_actor_is_found_by_its_name_and_path(system: ActorSystem) -> None:
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


async def test_the_name_of_a_nameless_actor_never_finds_its_successor(system: ActorSystem) -> None:  # J14
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
async def test_what_nobody_is_called_finds_nobody(system: ActorSystem, wanted: Any) -> None:
    here = system.spawn(Echo, name="here")
    system.spawn(Echo, name="child", parent=here)
    assert system.actor(wanted) is None


@pytest.mark.parametrize("wanted", [None, 1.5, b"here", ["here"], Echo])
async def test_actors_are_found_by_texts_and_numbers_only(system: ActorSystem, wanted: Any) -> None:
    with pytest.raises(TypeError):
        system.actor(wanted)


async def test_actors_are_found_from_other_threads_too(system: ActorSystem) -> None:
    ref = system.spawn(Echo, name="here")
    assert await asyncio.to_thread(system.actor, "here") == ref
    assert await asyncio.to_thread(system.actor, ref.id) == ref
    assert await asyncio.to_thread(system.actor, "nobody") is None
    assert await asyncio.to_thread(system.actors) == [ref]


async def test_a_very_long_line_of_descent_has_a_path(system: ActorSystem) -> None:
    ref: ActorRef[Any, Any] | None = None
    for depth in range(3000):
        ref = system.spawn(echo, name=str(depth), parent=ref)
    assert ref is not None
    assert ref.path == "/" + "/".join(str(depth) for depth in range(3000))
    assert system.actor(ref.path) == ref
    assert await ref.ask("hello") == "hello"
