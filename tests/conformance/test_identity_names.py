"""Names, paths and ids: who is found by them, and who is not."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import ActorRef, ActorSystem
from greenroom.errors import InvalidName, NameTaken
from tests.conformance.cast import Listener, run_threads


async def end(ref: ActorRef[Any, Any]) -> None:
    ref.stop()
    await ref.terminated()


async def test_an_actor_is_found_by_name_path_and_id(system: ActorSystem) -> None:  # J8
    parent: ActorRef[Any, Any] = system.spawn(lambda ctx, name: ctx.spawn(Listener, [], name=name), name="parent")
    child = await parent.ask("child")
    nameless = await parent.ask(None)
    top = system.spawn(Listener, [])
    assert (parent.path, child.path, child.name) == ("/parent", "/parent/child", "child")
    assert top.name.startswith("Listener$")
    assert top.path == f"/{top.name}"
    assert nameless.path == f"/parent/{nameless.name}"
    for ref in (parent, child, nameless, top):
        assert system.actor(ref.path) == ref
        assert system.actor(ref.id) == ref
        assert str(ref) == ref.path
    assert system.actor("parent") == parent
    assert system.actor(top.name) == top
    for unknown in (
        "child",
        nameless.name,
        "/child",
        "/parent/other",
        "/parent/child/x",
        "",
        "/",
        "Listener$x",
        1 << 50,
    ):
        assert system.actor(unknown) is None
    found = system.actor("/parent/child")
    assert found is not None
    assert await found.ask("hello") == "hello"


@pytest.mark.config(max_actors=1)
async def test_a_name_finds_whoever_has_it_now_and_an_id_never_another(system: ActorSystem) -> None:  # J8, J14
    old = system.spawn(Listener, [], name="a")
    await end(old)
    assert system.actor("a") is None
    assert system.actor(old.id) is None
    new = system.spawn(Listener, [], name="a")
    assert system.actor("a") == new
    assert system.actor(old.id) is None
    assert system.actor(new.id) == new


@pytest.mark.config(max_actors=1)
async def test_the_name_of_a_nameless_actor_is_never_anothers(system: ActorSystem) -> None:  # J8, J14
    names: set[str] = set()
    for _ in range(20):
        ref = system.spawn(Listener, [])
        assert ref.name not in names
        for name in names:
            assert system.actor(name) is None
        names.add(ref.name)
        assert system.actor(ref.name) == ref
        await end(ref)


async def test_a_name_is_unique_among_siblings_only(system: ActorSystem) -> None:  # case 60, J8
    a = system.spawn(Listener, [], name="a")
    with pytest.raises(NameTaken) as caught:
        system.spawn(Listener, [], name="a")
    assert caught.value.path == "/a"
    child = system.spawn(Listener, [], name="a", parent=a)
    assert child.path == "/a/a"
    with pytest.raises(NameTaken):
        system.spawn(Listener, [], name="a", parent=a)
    grandchild = system.spawn(Listener, [], name="a", parent=child)
    assert system.actor("/a/a/a") == grandchild
    assert len(system.actors()) == 3
    await end(a)
    assert system.actors() == []
    assert system.spawn(Listener, [], name="a") != a


@pytest.mark.parametrize("name", ["", "/", "a/b", "/a", "Listener$1", "$", 7, b"a"])
async def test_a_name_that_could_be_mistaken_is_refused(system: ActorSystem, name: Any) -> None:  # J8, J9
    with pytest.raises(InvalidName):
        system.spawn(Listener, [], name=name)
    assert system.actors() == []
    assert system.snapshot().spawned == 0


@pytest.mark.real
async def test_threads_find_actors_too(system: ActorSystem) -> None:  # J8
    heard: list[Any] = []
    ref = system.spawn(Listener, heard, name="a")
    found: list[Any] = []

    def look() -> None:
        found.extend(system.actor(key) for key in ("a", "/a", ref.id, "b"))
        found[0].tell("hello")

    await run_threads(look)
    await system.settle()
    assert found == [ref, ref, ref, None]
    assert heard == ["hello"]


async def test_a_name_stays_taken_until_its_actor_has_ended(system: ActorSystem) -> None:  # case 60
    tried: list[Any] = []

    class Reluctant(Listener):
        def try_it(self) -> None:
            try:
                self.ctx.system.spawn(Listener, [], name="a")
            except NameTaken as taken:
                tried.append(taken.path)

        def pre_stop(self) -> None:
            self.try_it()

        def post_stop(self) -> None:
            self.try_it()

    ref = system.spawn(Reluctant, [], name="a")
    await ref.started()
    assert system.actor("a") == ref
    await end(ref)
    assert tried == ["/a", "/a"]
    assert system.actor("a") is None
