"""Snapshots and the tree: what they show of actors, and of restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSnapshot,
    ActorSystem,
    Backoff,
    ChildSpec,
    Context,
    Directive,
    Lane,
    Ledger,
    ManualClock,
    Scope,
    Supervision,
    Supervisor,
    SystemSnapshot,
    WhichChildren,
)
from tests.conformance.lives import actor_at
from tests.system.observing import Everything

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


Ref = ActorRef[Any, Any]
WITHIN = 60.0
SLOWLY = Supervision(max_restarts=20, within=WITHIN, backoff=Backoff(min=1.0, max=4.0))


class Worker(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        return message(self.ctx) if callable(message) else message


def shown(system: ActorSystem, ref: Ref) -> ActorSnapshot:
    (found,) = [actor for actor in system.snapshot().actors if actor.id == ref.id]
    # What is shown can be written down as it is.
    as_json = json.loads(system.snapshot().to_json())
    (same,) = [actor for actor in as_json["actors"] if actor["id"] == ref.id]
    for name in FIELDS:
        assert same[name] == getattr(found, name)
    return found


FIELDS = ("incarnation", "restarts", "last_restart", "next_attempt", "failures", "last_failure", "crash_looping")


def restarts_of(system: ActorSystem, ref: Ref) -> tuple[Any, ...]:
    seen = shown(system, ref)
    return seen.incarnation, seen.restarts, seen.last_restart, seen.next_attempt


def failures_of(system: ActorSystem, ref: Ref) -> tuple[Any, ...]:
    seen = shown(system, ref)
    return seen.failures, seen.last_failure, seen.crash_looping


def line_of(system: ActorSystem, ref: Ref) -> str:
    (line,) = (line for line in system.tree().splitlines() if ref.name in line)
    return line


async def test_an_actor_that_never_failed_shows_no_restarts(system: ActorSystem) -> None:  # J10, J16, M7
    ref = system.spawn(Worker, name="fine")
    for _ in range(2):
        assert restarts_of(system, ref) == (1, 0, None, None)
        assert failures_of(system, ref) == (0, None, False)
        assert "restart" not in line_of(system, ref)
        await system.settle()


def test_a_snapshot_shows_a_restart_that_waits_and_one_that_was(play: Play) -> None:  # J10, J16, M7
    clock = ManualClock(100.0)

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Worker, name="worker", supervision=SLOWLY)
        ref.tell(ValueError("first"))
        await system.settle()
        assert shown(system, ref).state == "restarting"
        assert restarts_of(system, ref) == (1, 0, None, 101.0)
        assert failures_of(system, ref) == (1, "ValueError: first", False)
        await clock.advance(0.75)
        assert restarts_of(system, ref) == (1, 0, None, 101.0)
        await clock.advance(0.25)
        assert shown(system, ref).state == "running"
        assert restarts_of(system, ref) == (2, 1, 101.0, None)
        ref.tell(KeyError("second"))
        await system.settle()
        assert restarts_of(system, ref) == (2, 1, 101.0, 103.0)
        assert failures_of(system, ref) == (2, "KeyError: 'second'", False)
        await clock.advance(2.0)
        assert restarts_of(system, ref) == (3, 2, 103.0, None)

    play(program, clock=clock)


async def test_the_tree_shows_how_often_and_when_again(system: ActorSystem, clock: ManualClock) -> None:  # J10, J16, M7
    ref = system.spawn(Worker, name="worker", supervision=SLOWLY)
    ref.tell(ValueError("first"))
    await system.settle()
    assert "restarting" in line_of(system, ref)
    assert "1 s" in line_of(system, ref)
    await clock.advance(0.75)
    assert "0.25 s" in line_of(system, ref)
    await clock.advance(0.25)
    assert "1 restart" in line_of(system, ref)
    assert "1 restarts" not in line_of(system, ref)
    assert " s" not in line_of(system, ref)
    ref.tell(ValueError("second"))
    await clock.advance(2.0)
    assert "2 restarts" in line_of(system, ref)


async def test_a_crash_loop_is_shown_for_as_long_as_it_is_one(system: ActorSystem, clock: ManualClock) -> None:
    # J10, J16, M7
    ref = system.spawn(Worker, name="worker", supervision=SLOWLY)
    for number in range(1, 5):
        ref.tell(ValueError(number))
        await clock.advance(4.0)
        assert failures_of(system, ref) == (number, f"ValueError: {number}", number >= 3)
        assert ("crash loop" in line_of(system, ref)) is (number >= 3)
    await clock.advance(WITHIN)  # it has run for long enough
    ref.tell(ValueError("another"))
    await clock.advance(4.0)
    assert failures_of(system, ref) == (1, "ValueError: another", False)
    assert restarts_of(system, ref)[:2] == (6, 5)
    assert "crash loop" not in line_of(system, ref)


async def test_an_actor_that_has_run_quietly_for_long_is_in_no_crash_loop_any_more(
    system: ActorSystem, clock: ManualClock
) -> None:  # J10, J16, M7
    ref = system.spawn(Worker, name="worker", supervision=SLOWLY)
    for number in range(3):
        ref.tell(ValueError(number))
        await clock.advance(4.0)
    assert shown(system, ref).crash_looping
    await clock.advance(10 * WITHIN)
    seen = shown(system, ref)
    assert (seen.state, seen.restarts) == ("running", 3)
    assert not seen.crash_looping
    assert "crash loop" not in line_of(system, ref)


async def test_starts_that_fail_are_failures_in_a_row(system: ActorSystem, clock: ManualClock) -> None:
    # J10, J16, M7: what counts as a restart
    class Unable(Worker):
        def pre_start(self) -> None:
            if self.ctx.now() < 6.0:
                raise ValueError("cannot")

    ref = system.spawn(Unable, name="unable", supervision=SLOWLY)
    await system.settle()
    assert restarts_of(system, ref) == (1, 0, None, 1.0)
    await clock.advance(1.0)
    assert restarts_of(system, ref) == (2, 1, 1.0, 3.0)
    await clock.advance(2.0)
    assert restarts_of(system, ref) == (3, 2, 3.0, 7.0)
    assert failures_of(system, ref) == (3, "ValueError: cannot", True)
    await clock.advance(4.0)
    assert shown(system, ref).state == "running"
    assert restarts_of(system, ref) == (4, 3, 7.0, None)


def test_a_restart_by_request_is_shown_and_does_not_count(play: Play) -> None:  # J10, J16, M7: what counts as a restart
    clock = ManualClock(5.0)

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Worker, name="worker", supervision=SLOWLY)
        ref.restart()
        await system.settle()
        assert restarts_of(system, ref) == (2, 0, 5.0, None)
        assert failures_of(system, ref) == (0, None, False)
        ref.tell(ValueError("bad"))
        await system.settle()
        ref.restart()  # and one that waits is started at once
        await system.settle()
        assert restarts_of(system, ref) == (3, 1, 5.0, None)

    play(program, clock=clock)


async def test_failures_that_are_resumed_are_failures_too(system: ActorSystem, clock: ManualClock) -> None:
    # J10, J16, M7
    ref = system.spawn(Worker, name="worker", supervision=Supervision(Directive.RESUME))
    for number in range(3):
        ref.tell(ValueError(number))
    await system.settle()
    assert restarts_of(system, ref) == (1, 0, None, None)
    assert failures_of(system, ref) == (3, "ValueError: 2", True)


async def test_siblings_that_wait_together_show_the_moment_they_wait_for(
    system: ActorSystem, clock: ManualClock
) -> None:  # J10, J16, M7: 015
    together = Supervision(scope=Scope.ONE_FOR_ALL, backoff=Backoff(min=2.0, max=2.0))
    parent = system.spawn(Worker)
    one, other = (system.spawn(Worker, parent=parent, supervision=together) for _ in range(2))
    await system.settle()
    one.tell(ValueError("bad"))
    await system.settle()
    assert [shown(system, ref).state for ref in (one, other)] == ["restarting"] * 2
    assert [shown(system, ref).next_attempt for ref in (one, other)] == [2.0, 2.0]
    await clock.advance(2.0)
    for ref in (one, other):
        seen = shown(system, ref)
        assert (seen.state, seen.incarnation, seen.last_restart, seen.next_attempt) == ("running", 2, 2.0, None)
    assert failures_of(system, other) == (0, None, False)


@pytest.mark.parametrize("scope", list(Scope))
async def test_a_supervisors_children_show_what_it_says_of_them(
    system: ActorSystem, clock: ManualClock, scope: Scope
) -> None:  # J10, J16, M7
    spec = Supervisor.spec([ChildSpec("a", Worker), ChildSpec("b", Worker)], scope=scope, backoff=Backoff(2.0, 2.0))
    boss = system.spawn(Supervisor, spec, name="boss")
    await boss.started()
    first = actor_at(system, "/boss/a")

    async def agree() -> None:
        for info in await boss.ask(WhichChildren()):
            assert info.ref is not None
            _, restarts, last_restart, next_attempt = restarts_of(system, info.ref)
            assert (info.restarts, info.last_restart, info.next_attempt) == (restarts, last_restart, next_attempt)

    await agree()
    first.tell(ValueError("bad"))
    await system.settle()
    assert restarts_of(system, first) == (1, 0, None, 2.0)
    await agree()
    await clock.advance(2.0)
    assert restarts_of(system, first) == (2, 1, 2.0, None)
    assert failures_of(system, first)[:2] == (1, "ValueError: bad")
    await agree()


@pytest.mark.parametrize("end", [ActorRef.stop, ActorRef.kill])
async def test_an_actor_that_does_not_wait_any_more_is_not_shown(
    system: ActorSystem, clock: ManualClock, end: Callable[[Ref], None]
) -> None:  # J10, J16, M7: 015
    ref = system.spawn(Worker, name="worker", supervision=SLOWLY)
    ref.tell(ValueError("bad"))
    await system.settle()
    end(ref)
    await system.settle()
    assert system.snapshot().timers == 0
    assert system.snapshot().actors == ()
    assert len(system.tree().splitlines()) == 1


# -- observers


async def test_observers_are_told_of_each_restart_once_with_its_cause(system: ActorSystem, clock: ManualClock) -> None:
    # J10, J16, M7
    observer = Everything()
    system.observers.add(observer)
    ref = system.spawn(Worker, supervision=SLOWLY)
    bad, asked_for = ValueError("bad"), ValueError("asked for")
    ref.tell(bad)
    await system.settle()
    assert observer.of("actor_restarted") == []
    await clock.advance(1.0)
    assert observer.of("actor_restarted") == [(ref, bad)]
    ref.restart()
    await system.settle()
    ref.restart(asked_for)
    await system.settle()
    assert observer.of("actor_restarted") == [(ref, bad), (ref, None), (ref, asked_for)]
    assert observer.of("actor_started") == [(ref,)]
    assert observer.of("actor_stopped") == []


async def test_observers_are_told_of_a_resumed_failure_neither_as_restart_nor_as_end(system: ActorSystem) -> None:
    # J10, J16, M7
    observer = Everything()
    system.observers.add(observer)
    ref = system.spawn(Worker, supervision=Supervision(Directive.RESUME))
    ref.tell(ValueError("bad"))
    await system.settle()
    assert observer.told == [("actor_started", ref)]


async def test_observers_are_told_of_restarts_by_siblings_and_supervisors(system: ActorSystem) -> None:  # J10, J16, M7
    observer = Everything()
    system.observers.add(observer)
    bad = ValueError("bad")
    for scope in (Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE):
        spec = Supervisor.spec([ChildSpec(name, Worker) for name in "abc"], scope=scope)
        boss = system.spawn(Supervisor, spec)
        await boss.started()
        children = [child.ref for child in await boss.ask(WhichChildren()) if child.ref is not None]
        children[1].tell(bad)
        await system.settle()
        restarted = observer.of("actor_restarted")
        assert restarted == [(ref, bad) for ref in (children if scope is Scope.ONE_FOR_ALL else children[1:])]
        observer.told.clear()


async def test_observers_are_told_of_each_step_of_an_escalation(system: ActorSystem) -> None:  # case 41, J10, J16, M7
    observer = Everything()
    system.observers.add(observer)
    bad = ValueError("bad")
    up = Supervision(Directive.ESCALATE)
    top = system.spawn(Worker, supervision=Supervision(backoff=None))
    middle = system.spawn(Worker, parent=top, supervision=up)
    leaf = system.spawn(Worker, parent=middle)
    leaf.tell(bad)
    await system.settle()
    assert observer.of("escalated") == [(leaf, bad), (middle, bad)]
    assert observer.of("actor_restarted") == [(top, bad)]
    assert {ref for ref, _ in observer.of("actor_stopped")} == {leaf, middle}


async def test_observers_are_told_of_a_limit_that_escalates_and_of_none_that_stops(system: ActorSystem) -> None:
    # J10, J16, M7
    observer = Everything()
    system.observers.add(observer)
    bad = ValueError("bad")
    parent = system.spawn(Worker)
    stops = system.spawn(Worker, parent=parent, supervision=Supervision(max_restarts=0))
    stops.tell(bad)
    await stops.terminated()
    assert observer.of("escalated") == []
    limit = Supervision(max_restarts=0, on_limit=Directive.ESCALATE)
    escalates = system.spawn(Worker, parent=parent, supervision=limit)
    escalates.tell(bad)
    await parent.terminated()
    assert observer.of("escalated") == [(escalates, bad)]
