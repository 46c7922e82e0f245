"""Refs, ids, names and paths: what is meant for one actor never reaches another."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import Actor, ActorRef, ActorSystem, ActorTerminated, ManualClock, State, SystemConfig
from greenroom.errors import InvalidName, NameTaken, RefGone
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import actor_at
from tests.conformance.relations import end
from tests.conformance.sending import FOREIGN, Listener, run_threads, run_threads_while_blocked, until


async def reused(system: ActorSystem, heard: list[Any]) -> tuple[ActorRef[Any, Any], ActorRef[Any, Any]]:
    """The ref of an actor that has ended, and of the one that has its slot; the system holds one actor only."""
    old = system.spawn(Listener, [])
    await end(old)
    new = system.spawn(Listener, heard)
    await new.started()
    return old, new


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.config(max_actors=1)
async def test_a_stale_ref_never_reaches_the_new_actor(system: ActorSystem, foreign: bool) -> None:  # case 18, J14
    heard: list[Any] = []
    old, new = await reused(system, heard)

    def send() -> None:
        old.tell(1)
        old << 2

    if foreign:
        run_threads_while_blocked(send)
    else:
        send()
    await old.send(3)
    await system.settle()
    with pytest.raises(ActorTerminated) as caught:
        await old.ask(4)
    assert caught.value.ref == old
    assert heard == []
    letters = system.dead_letters.recent()
    assert sorted(letter.message for letter in letters) == [1, 2, 3, 4]
    assert {letter.recipient for letter in letters} == {old}
    assert assert_ledger_balanced(system, old).dead_lettered == 4
    assert assert_ledger_balanced(system, new).sent == 0
    assert await new.ask("well?") == "well?"


ORDERS: list[Callable[[ActorRef[Any, Any]], object]] = [
    lambda ref: ref.stop(),
    lambda ref: ref.stop(after_queued=True),
    lambda ref: ref.kill(),
    lambda ref: ref.fail(ValueError("not you")),
]


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("order", ORDERS, ids=["stop", "stop_in_order", "kill", "fail"])
@pytest.mark.config(max_actors=1)
async def test_an_order_to_a_stale_ref_spares_the_new_actor(
    system: ActorSystem, order: Callable[[ActorRef[Any, Any]], object], foreign: bool
) -> None:  # case 18, J14
    old, new = await reused(system, [])
    if foreign:
        await run_threads(lambda: order(old))
    else:
        order(old)
    await system.settle()
    assert new.state is State.RUNNING
    assert await new.ask("still there?") == "still there?"
    assert old.state is State.TERMINATED
    assert not old.is_alive


@pytest.mark.real
@pytest.mark.config(max_actors=1)
async def test_what_a_thread_sent_before_the_slot_was_reused_is_not_the_new_actors(system: ActorSystem) -> None:
    # case 18, J14, J15
    heard: list[Any] = []
    old = system.spawn(Listener, [])
    await old.started()
    old.kill()
    run_threads_while_blocked(lambda: old.tell("for the old one"))
    await old.terminated()
    system.spawn(Listener, heard)
    await system.settle()
    assert heard == []
    assert [letter.message for letter in system.dead_letters.recent()] == ["for the old one"]
    assert assert_ledger_balanced(system, old).dead_lettered == 1


@pytest.mark.config(max_actors=2)
async def test_a_timer_for_a_stale_ref_does_not_reach_the_new_actor(system: ActorSystem, clock: ManualClock) -> None:
    # case 18, J11, J14
    heard: list[Any] = []

    class Late(Actor[ActorRef[Any, Any], None]):
        def receive(self, target: ActorRef[Any, Any]) -> None:
            self.ctx.send_after(1.0, target, "tick")

    late = system.spawn(Late)
    await late.started()
    old = system.spawn(Listener, [])
    await late.ask(old)
    await end(old)
    new = system.spawn(Listener, heard)
    await clock.advance(2.0)
    assert heard == []
    assert assert_ledger_balanced(system, old).dead_lettered == 1
    assert assert_ledger_balanced(system, new).sent == 0


@pytest.mark.config(max_actors=1)
async def test_a_deferred_reply_of_an_ended_actor_does_not_answer_for_the_new_one(system: ActorSystem) -> None:
    # case 18
    replies: list[Any] = []
    old: ActorRef[Any, Any] = system.spawn(lambda ctx, message: replies.append(ctx.defer_reply()))
    asked = old.ask("old question")
    await system.settle()
    await end(old)
    with pytest.raises(ActorTerminated):
        await asked
    new: ActorRef[Any, Any] = system.spawn(lambda ctx, message: replies.append(ctx.defer_reply()))
    question = new.ask("new question")
    await system.settle()
    replies[0].send("too late")
    replies[1].send("in time")
    assert await question == "in time"


@pytest.mark.config(max_actors=2)
async def test_watching_a_stale_ref_tells_of_the_old_end_at_once(system: ActorSystem) -> None:  # cases 13, 18
    probe = TestProbe(system)
    await probe.ref.started()
    old, new = await reused(system, [])
    await probe.watch(old)
    await probe.expect_terminated(old)
    await end(new)
    await probe.expect_no()


@given(st.lists(st.tuples(st.sampled_from(["spawn", "stop", "tell"]), st.integers(0, 30)), max_size=60))
@settings(max_examples=25, deadline=None)
def test_every_message_goes_to_the_actor_it_was_meant_for(steps: list[tuple[str, int]]) -> None:  # J14
    async def main() -> None:
        refs: list[ActorRef[Any, Any]] = []
        boxes: list[list[int]] = []
        expected: list[list[int]] = []
        dead: list[tuple[ActorRef[Any, Any], int]] = []
        async with asyncio.timeout(120.0), ActorSystem(config=SystemConfig(max_actors=4)) as system:
            for step, (verb, which) in enumerate(steps):
                alive = [number for number, ref in enumerate(refs) if ref.is_alive]
                if verb == "spawn" and len(alive) < 4:
                    boxes.append([])
                    expected.append([])
                    refs.append(system.spawn(Listener, boxes[-1]))
                elif verb == "stop" and alive:
                    await end(refs[alive[which % len(alive)]])
                elif verb == "tell" and refs:
                    number = which % len(refs)
                    refs[number].tell(step)
                    if number in alive:
                        expected[number].append(step)
                    else:
                        dead.append((refs[number], step))
                await system.settle()
            assert boxes == expected
            assert [(letter.recipient, letter.message) for letter in system.dead_letters.recent()] == dead
            assert len({ref.id for ref in refs}) == len(refs)
            assert assert_ledger_balanced(system).dead_lettered == len(dead)

    asyncio.run(main())


async def test_refs_are_equal_if_they_are_of_the_same_actor(system: ActorSystem) -> None:  # B7
    a = system.spawn(Listener, [], name="a")
    b = system.spawn(Listener, [])
    assert a == system.actor("a") == system.actor(a.id)
    assert a != b
    assert a != a.id
    assert a != "/a"
    assert hash(a) == hash(system.actor("a"))
    assert len({a, b, system.actor("a"), system.actor(b.id)}) == 2
    async with ActorSystem("other") as other:
        assert other.spawn(Listener, [], name="a") != a
    await end(a)
    again = system.spawn(Listener, [], name="a")
    assert again != a
    assert {a: "old", again: "new"}[a] == "old"


async def test_a_ref_stays_what_it_is_when_its_actor_has_ended(system: ActorSystem) -> None:  # J14
    ref = system.spawn(Listener, [], name="a")
    before = (ref.id, ref.name, ref.path, hash(ref), str(ref))
    known = {ref: 1}
    await end(ref)
    assert (ref.id, ref.name, ref.path, hash(ref), str(ref)) == before
    assert known[ref] == 1
    ref.tell("anybody?")
    letter = system.dead_letters.recent()[-1]
    assert letter.recipient == ref
    assert letter.recipient in known


async def test_a_sender_is_the_same_ref_wherever_it_comes_from(system: ActorSystem) -> None:  # J8
    senders: list[Any] = []

    class Echo(Actor[Any, None]):
        def receive(self, message: Any) -> None:
            senders.append(self.ctx.sender)
            if isinstance(message, ActorRef):
                message.tell("hello")

    a, b, c = (system.spawn(Echo) for _ in range(3))
    a.tell(b)
    await system.settle()
    a.tell("from c", sender=c)
    await system.settle()
    assert senders == [None, a, c]
    assert {a: "a"}[senders[1]] == "a"


@pytest.mark.parametrize("again", [lambda ref: pickle.loads(pickle.dumps(ref)), copy.copy, copy.deepcopy])
async def test_a_copied_or_pickled_ref_is_the_same_ref(system: ActorSystem, again: Callable[[Any], Any]) -> None:  # B7
    parent: ActorRef[Any, Any] = system.spawn(lambda ctx, name: ctx.spawn(Listener, [], name=name), name="parent")
    child = await parent.ask("child")
    nameless = await parent.ask(None)
    for ref in (parent, child, nameless):
        twin = again({"to": [ref]})["to"][0]
        assert twin == ref
        assert hash(twin) == hash(ref)
        assert (twin.id, twin.name, twin.path) == (ref.id, ref.name, ref.path)
    assert await again(child).ask("you?") == "you?"


@pytest.mark.real
async def test_a_ref_can_be_unpickled_by_another_thread(system: ActorSystem) -> None:  # B7
    heard: list[Any] = []
    data = pickle.dumps(system.spawn(Listener, heard))
    await run_threads(lambda: pickle.loads(data).tell("hello"))
    await system.settle()
    assert heard == ["hello"]


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.config(max_actors=1)
async def test_a_stale_ref_is_still_stale_when_unpickled(system: ActorSystem, reuse: bool) -> None:  # case 18, J14, B7
    heard: list[Any] = []
    old = system.spawn(Listener, [], name="a")
    early = pickle.dumps(old)
    await end(old)
    if reuse:
        system.spawn(Listener, heard, name="a")
    for data in (early, pickle.dumps(old)):
        twin = pickle.loads(data)
        assert twin.id == old.id
        assert not twin.is_alive
        assert twin.state is State.TERMINATED
        twin.tell("hello")
        with pytest.raises(ActorTerminated):
            await twin.ask("hello?")
    await system.settle()
    assert heard == []
    assert system.dead_letters.count == 4
    assert assert_ledger_balanced(system).dead_lettered == 4


async def test_a_stale_ref_equals_itself_when_unpickled(system: ActorSystem) -> None:  # B7
    """Refs are equal if they are of the same actor, which has ended; and they go by the same name."""
    parent: ActorRef[Any, Any] = system.spawn(lambda ctx, name: ctx.spawn(Listener, [], name=name), name="parent")
    child = await parent.ask("child")
    await end(child)
    twin = pickle.loads(pickle.dumps(child))
    assert twin == child
    assert {child: "known"}.get(twin) == "known"
    assert twin.path == child.path == "/parent/child"


async def test_a_ref_of_a_stopped_system_can_be_unpickled_and_is_stale(system: ActorSystem) -> None:  # J9, B7
    refs: list[ActorRef[Any, Any]] = []
    refs.append(system.spawn(Listener, []))
    await system.shutdown()
    twin = pickle.loads(pickle.dumps(refs[0]))
    twin.tell("anybody?")
    assert [letter.message for letter in system.dead_letters.recent()] == ["anybody?"]
    assert assert_ledger_balanced(system).dead_lettered == 1


def test_a_ref_of_a_system_that_is_gone_says_so() -> None:  # J9
    async def main() -> bytes:
        async with ActorSystem("forgotten") as system:
            return pickle.dumps(system.spawn(Listener, [], name="a"))

    data = asyncio.run(main())
    gc.collect()
    with pytest.raises(RefGone) as caught:
        pickle.loads(data)
    assert (caught.value.system, caught.value.path, caught.value.code) == ("forgotten", "/a", "ref_gone")


def test_a_ref_does_not_resolve_in_another_process() -> None:  # J9, B7
    """Not even where a system of the same name holds an actor of the same name and id."""
    program = """
import asyncio, pickle, sys
from greenroom import ActorSystem, errors
async def main():
    async with ActorSystem("demo") as system:
        ref = system.spawn(lambda ctx, message: None, name="a")
        try:
            pickle.loads(bytes.fromhex(sys.argv[1]))
        except errors.RefGone as gone:
            print(gone.system, gone.path, ref.id)
asyncio.run(main())
"""

    async def main() -> tuple[bytes, int]:
        async with ActorSystem("demo") as system:
            ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: None, name="a")
            data = pickle.dumps(ref)
            said = await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", program, data.hex()], capture_output=True, timeout=15, check=True
            )
            return said.stdout, ref.id

    said, number = asyncio.run(main())
    assert said.split() == [b"demo", b"/a", str(number).encode()]


async def test_a_ref_keeps_no_ended_actor_alive(system: ActorSystem) -> None:  # J14
    class Thing: ...

    class Keeper(Actor[Any, None]):
        def __init__(self, thing: Thing) -> None:
            self.thing = thing

        def receive(self, message: Any) -> None: ...

    thing = Thing()
    gone = weakref.ref(thing)
    ref = system.spawn(Keeper, thing)
    await ref.started()
    del thing
    assert gone() is not None
    await end(ref)
    await until(lambda: gc.collect() is not None and gone() is None)
    assert not ref.is_alive


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
    found = actor_at(system, "/parent/child")
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
