"""What can be seen of a system: `snapshot()` and `tree()`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSnapshot, ActorSystem, Context, Lane, Ledger, ManualClock, SystemSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Play


class Keeper(Actor[Any, Any]):
    """Does what it is sent, with its context."""

    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else message

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        pass


def one_of(snapshot: SystemSnapshot, ref: ActorRef[Any, Any]) -> ActorSnapshot:
    (found,) = [actor for actor in snapshot.actors if actor.id == ref.id]
    return found


def plain_parts(value: Any) -> Iterator[Any]:
    """Every part of a value that JSON could hold."""
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from plain_parts(part)


def test_a_snapshot_shows_what_the_system_looks_like_now(play: Play) -> None:
    clock = ManualClock(7.0)

    async def program(system: ActorSystem) -> None:
        top = system.spawn(Keeper, name="top")
        child = await top.ask(lambda ctx: ctx.spawn(Keeper))
        await top.ask(lambda ctx: ctx.send_after(5.0, ctx.self, "later") and None)
        gone = system.spawn(Keeper)
        gone.stop()
        await gone.terminated()
        gone.tell("late")
        seen = system.snapshot()
        assert (seen.name, seen.time, seen.phase) == ("test", 7.0, "running")
        assert (seen.spawned, seen.terminated) == (3, 1)
        assert (seen.dead_letters, seen.dead_letters_by_reason) == (1, system.dead_letters.by_reason)
        assert seen.timers == 1
        assert seen.ledger == system.ledger() == Ledger(sent=3, handled=2, dead_lettered=1)
        assert [actor.id for actor in seen.actors] == [top.id, child.id]
        first, second = seen.actors
        assert (first.name, first.path, first.kind) == ("top", "/top", "Keeper")
        assert (second.name, second.path, second.kind) == (child.name, f"/top/{child.name}", "Keeper")
        assert (first.parent, first.children) == (None, (child.id,))
        assert (second.parent, second.children) == (top.id, ())
        assert first.ledger == system.ledger(top)
        assert (first.state, first.busy, first.stashed, first.watchers, first.depths) == ("running", False, 0, 0, {})

    play(program, clock=clock)


async def test_a_snapshot_shows_states_depths_stashes_and_watchers(system: ActorSystem) -> None:
    gate = asyncio.Event()
    entered = asyncio.Event()

    async def held(ctx: Context, message: Any) -> None:
        if message == "stash":
            ctx.stash()
            return
        entered.set()
        await gate.wait()

    ref = system.spawn(held)
    created = one_of(system.snapshot(), ref)
    assert (created.state, created.busy) == ("created", False)
    await system.spawn(Keeper).ask(lambda ctx: ctx.watch(ref))
    for _ in range(2):
        ref.tell("stash")
    ref.tell("hold")
    await entered.wait()
    for lane, count in ((Lane.CONTROL, 1), (Lane.DATA, 2), (Lane.LOG, 3)):
        for _ in range(count):
            ref.tell("more", lane=lane)
    seen = one_of(system.snapshot(), ref)
    assert (seen.state, seen.busy, seen.stashed, seen.watchers) == ("running", True, 2, 1)
    assert seen.depths == {"CONTROL": 1, "DATA": 2, "LOG": 3}
    assert seen.ledger.in_hand == 1
    assert seen.ledger.queued == 8
    ref.stop()
    gate.set()
    await ref.terminated()


@pytest.mark.parametrize("phase", ["new", "running", "stopped"])
def test_a_snapshot_can_be_taken_at_any_time(play: Play, phase: str) -> None:
    async def main() -> None:
        system = ActorSystem("demo")
        system.spawn(Keeper, name="early").tell("x")
        if phase != "new":
            async with system:
                await system.settle()
                if phase == "running":
                    assert system.snapshot().phase == "running"
        seen = system.snapshot()
        assert seen.phase == ("new" if phase == "new" else "stopped")
        assert json.loads(seen.to_json())["name"] == "demo"
        if phase == "new":
            system.stop()

    play.bare(main)


async def test_a_snapshot_is_plain_data_and_can_be_written_as_json(system: ActorSystem) -> None:
    top = system.spawn(Keeper, name='ünïcode \ud800 "quoted" \n')
    system.spawn(Keeper, parent=top).tell("x")
    gone = system.spawn(Keeper)
    gone.kill()
    await gone.terminated()
    gone.tell(object())
    seen = system.snapshot()
    as_dict = seen.as_dict()
    assert all(isinstance(part, dict | list | tuple | str | int | float | None) for part in plain_parts(as_dict))
    assert json.loads(seen.to_json()) == json.loads(json.dumps(as_dict))
    back = json.loads(seen.to_json())
    assert [actor["path"] for actor in back["actors"]] == [actor.path for actor in seen.actors]
    assert back["ledger"]["sent"] == seen.ledger.sent
    assert set(back) == {one.name for one in fields(SystemSnapshot)}


async def test_a_snapshot_is_frozen(system: ActorSystem) -> None:
    ref = system.spawn(Keeper, name="one")
    seen = system.snapshot()
    for value in (seen, seen.actors[0], seen.ledger):
        assert is_dataclass(value)
        for one in fields(value):
            with pytest.raises(FrozenInstanceError):
                setattr(value, one.name, None)
    before = seen.to_json()
    ref.tell("more")
    system.spawn(Keeper)
    await system.settle()
    ref.stop()
    await ref.terminated()
    assert seen.to_json() == before
    assert isinstance(seen.actors, tuple)


async def test_what_is_done_to_a_snapshot_does_nothing_to_the_system(system: ActorSystem) -> None:
    ref = system.spawn(Keeper)
    ref.stop()
    await ref.terminated()
    ref.tell("late")
    system.snapshot().as_dict()["dead_letters_by_reason"].clear()
    system.dead_letters.by_reason.clear()
    system.actors().clear()
    system.dead_letters.recent().clear()
    assert sum(system.snapshot().dead_letters_by_reason.values()) == 1
    assert len(system.dead_letters.recent()) == 1


async def test_an_actor_can_take_a_snapshot_and_finds_itself_busy(system: ActorSystem) -> None:
    ref = system.spawn(Keeper)
    seen = await ref.ask(lambda ctx: ctx.system.snapshot())
    assert one_of(seen, ref).busy
    assert not one_of(system.snapshot(), ref).busy
    assert one_of(await asyncio.to_thread(system.snapshot), ref).state == "running"


# -- tree()


async def test_the_tree_shows_every_actor_below_its_parent(system: ActorSystem) -> None:
    top = system.spawn(Keeper, name="top")
    middle = system.spawn(Keeper, name="middle", parent=top)
    system.spawn(Keeper, name="leaf", parent=middle)
    nameless = system.spawn(Keeper, parent=top)
    last = system.spawn(Keeper, name="last")
    await system.settle()
    title, *lines = system.tree().split("\n")
    assert "test" in title
    assert "running" in title
    wanted = [(0, "top"), (1, "middle"), (2, "leaf"), (1, nameless.name), (0, "last")]
    assert len(lines) == len(wanted)
    indents = sorted({len(line) - len(line.lstrip(" │├└─")) for line in lines})
    for line, (depth, name) in zip(lines, wanted, strict=True):
        assert name in line
        assert "Keeper" in line
        assert "running" in line
        assert len(line) - len(line.lstrip(" │├└─")) == indents[depth]
    last.tell("a")
    last.tell("b")
    assert "2 queued" in system.tree()
    assert await asyncio.to_thread(system.tree)


async def test_the_tree_of_an_empty_system_is_its_title(system: ActorSystem) -> None:
    assert len(system.tree().splitlines()) == 1


async def test_a_very_long_line_of_descent_can_be_seen_and_shut_down(system: ActorSystem) -> None:
    depth = 2000  # deeper than Python's stack
    ref: ActorRef[Any, Any] | None = None
    for _ in range(depth):
        ref = system.spawn(Keeper, name="x", parent=ref)
    await system.settle()
    assert len(system.tree().splitlines()) == depth + 1
    seen = system.snapshot()
    assert len(seen.actors) == depth
    assert json.loads(seen.to_json())["spawned"] == depth
    await system.shutdown()
    assert system.report is not None
    assert (system.report.terminated, system.report.forced) == (depth, ())
