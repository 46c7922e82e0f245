"""Orders that cross one another on their way to the children of a `Supervisor` (J10, M7)."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Backoff,
    ChildCounts,
    CountChildren,
    Directive,
    Down,
    ManualClock,
    Scope,
    State,
    Supervision,
)
from tests.conformance.incarnations import soon, turns
from tests.supervision.staff import AsyncWorker, Boom, Stage, Worker, by_name, end, nothing_left, supervise

Ref = ActorRef[Any, Any]


async def children_of(supervisor: Ref) -> list[Ref]:
    return [info.ref for info in (await by_name(supervisor)).values() if info.ref is not None]


async def counted(system: ActorSystem, supervisor: Ref) -> ChildCounts:
    found: ChildCounts = await soon(system, supervisor.ask(CountChildren(), timeout=None))
    return found


async def kill_while_it_waits(system: ActorSystem, clock: ManualClock, stage: Stage) -> tuple[Ref, Ref, Ref]:
    """A supervisor and its two children; the first was killed while it waited for its backoff, and has come back."""
    backoff = Backoff(min=1.0, max=1.0)
    supervisor = await supervise(system, stage.children("ab"), Scope.ONE_FOR_ALL, intensity=None, backoff=backoff)
    one, other = await children_of(supervisor)
    one.tell(Boom())
    await clock.advance(0.5)
    assert one.state is State.RESTARTING
    one.kill()
    await clock.advance(2.0)
    assert [one.state, other.state] == [State.RUNNING, State.RUNNING]
    stage.take()
    return supervisor, one, other


async def test_a_child_killed_while_it_waited_can_be_restarted_later(
    system: ActorSystem, clock: ManualClock
) -> None:  # J10, M6
    stage = Stage()
    _, one, _ = await kill_while_it_waits(system, clock, stage)
    one.restart()
    await clock.advance(0.0)
    assert stage.take() == ["-a", "+a"]
    assert await soon(system, one.ask("well?", timeout=None)) == "well?"


async def test_a_child_killed_while_it_waited_leaves_with_its_group_later(
    system: ActorSystem, clock: ManualClock
) -> None:  # J10, M7
    stage = Stage()
    supervisor, one, other = await kill_while_it_waits(system, clock, stage)
    other.tell(Boom())
    await clock.advance(5.0)
    assert (await counted(system, supervisor)).active == 2
    assert (one.state, other.state) == (State.RUNNING, State.RUNNING)
    assert sorted(stage.take()) == ["+a", "+b", "-a", "-b"]
    nothing_left(system, supervisor, one, other)


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE], ids=lambda scope: str(scope.value))
async def test_a_child_that_leaves_to_be_restarted_holds_up_its_group_only_until_it_has_left(
    system: ActorSystem, scope: Scope
) -> None:  # J10, M6
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("ab"), scope)
    one, other = await children_of(supervisor)
    stage.take()
    gate = stage.hold("-b")
    other.restart()
    await gate.entered.wait()
    left = stage.hold("-a")
    one.tell(Boom())
    await left.entered.wait()
    left.released.set()
    await turns(20)
    assert "+a" not in stage.log  # they start together
    gate.released.set()
    stage.gates.clear()
    await soon(system, system.settle())
    assert (await counted(system, supervisor)).active == 2
    assert (one.state, other.state) == (State.RUNNING, State.RUNNING)
    for ref in (one, other):
        assert await soon(system, ref.ask("well?", timeout=None)) == "well?"


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.config(max_msgs_per_actor=1)
async def test_a_child_that_is_ended_while_its_start_is_on_the_way_comes_back(
    system: ActorSystem, how: str
) -> None:  # J10, case 35
    stage = Stage()

    class Ender(Actor[Any, Any]):
        def receive(self, message: tuple[Ref, int]) -> None:
            ref, left = message
            end(ref, how)
            if left:
                self.ctx.self.tell((ref, left - 1))

    supervisor = await supervise(system, stage.children("a"), intensity=None)
    (ref,) = await children_of(supervisor)
    for more in range(3):
        system.spawn(Ender).tell((ref, 50 + more))
    await system.settle()
    assert ref.state is State.RUNNING
    assert (await by_name(supervisor))["a"].state is State.RUNNING
    assert await soon(system, ref.ask("well?", timeout=None)) == "well?"
    assert stage.log.count("+a") == stage.log.count("-a") + 1


async def test_a_supervisor_that_gave_up_and_is_told_to_go_on_begins_again(system: ActorSystem) -> None:  # J10, M7
    stage = Stage()
    resumed = Supervision(lambda cause: Directive.RESUME, backoff=None)
    supervisor = await supervise(system, stage.children("ab"), intensity=0, supervision=resumed)
    first = await children_of(supervisor)
    first[0].tell(Boom())
    await system.settle()
    assert supervisor.state is State.RUNNING
    counts = await counted(system, supervisor)
    assert (counts.specs, counts.active) == (2, 2)
    for ref in await children_of(supervisor):
        assert await soon(system, ref.ask("well?", timeout=None)) == "well?"
    assert stage.take() == ["+a", "+b", "-a", "-b", "+a", "+b"]
    nothing_left(system, supervisor, *await children_of(supervisor))


class Bound(AsyncWorker):
    """Tells its stage who it hears has ended."""

    def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.stage.heard.append(("terminated", ref))

    def receive(self, message: Any) -> Any:
        if isinstance(message, Down):
            self.stage.heard.append(("down", message.ref))
            return None
        return super().receive(message)


async def test_a_child_that_comes_back_hears_of_the_ends_that_came_while_it_left(
    system: ActorSystem,
) -> None:  # M8, J10
    stage = Stage(Bound)
    supervisor = await supervise(system, stage.children("a"), intensity=None)
    (ref,) = await children_of(supervisor)
    friend: Ref = system.spawn(Worker, Stage(), "friend")
    await ref.ask(lambda ctx: ctx.watch(friend))
    await ref.ask(lambda ctx: ctx.monitor(friend))
    gate = stage.hold("-a")
    ref.stop()
    await gate.entered.wait()
    friend.stop()
    await friend.terminated()
    assert stage.heard == []
    gate.released.set()
    stage.gates.clear()
    await system.settle()
    assert await soon(system, ref.ask("well?", timeout=None)) == "well?"
    assert stage.heard == [("terminated", friend), ("a", "well?")], "its monitor was the old instance's"


async def test_a_restart_on_request_that_fails_is_followed_by_a_whole_backoff(
    system: ActorSystem, clock: ManualClock
) -> None:  # J10, M6
    stage = Stage()
    children = stage.children("a", backoff=Backoff(min=10.0, max=100.0))
    supervisor = await supervise(system, children, intensity=None)
    (ref,) = await children_of(supervisor)
    ref.tell(Boom())
    await clock.advance(1.0)
    assert (await by_name(supervisor))["a"].next_attempt == 10.0
    stage.take()
    stage.trouble("+a", Boom("no start"))
    ref.restart()
    await clock.advance(0.0)
    assert stage.take()[0] == "+a!"
    assert (await by_name(supervisor))["a"].next_attempt == 21.0
    await clock.advance(19.5)
    assert "+a" not in stage.take()
    assert (await by_name(supervisor))["a"].state is State.RESTARTING
    await clock.advance(0.5)
    assert stage.take() == ["+a"]
    assert (await by_name(supervisor))["a"].state is State.RUNNING
    nothing_left(system, supervisor, ref)
