"""Who may ask a `Supervisor`, and how; what it does not understand (J9, J10)."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ChildSpec,
    DeleteChild,
    ManualClock,
    Restart,
    RestartChild,
    StartChild,
    State,
    StopChild,
    Supervisor,
    WhichChildren,
)
from greenroom.errors import (
    GreenroomError,
    NameTaken,
    Unhandled,
)
from tests.supervision.staff import Boom, Stage, Worker, by_name, child_of, supervise

TRANSIENT, TEMPORARY = Restart.TRANSIENT, Restart.TEMPORARY


async def test_requests_that_are_told_are_done_and_mistakes_do_no_harm(system: ActorSystem) -> None:  # J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    supervisor.tell(StartChild(stage.child("b")))
    supervisor.tell(StartChild(stage.child("b")))
    supervisor.tell(StopChild("a"))
    supervisor.tell(StopChild("nobody"))
    supervisor.tell(WhichChildren())
    stage.trouble("+c", Boom())
    supervisor.tell(StartChild(stage.child("c")))
    await system.settle()
    infos = await by_name(supervisor)
    assert {name: info.state for name, info in infos.items()} == {"a": State.TERMINATED, "b": State.RUNNING}
    assert supervisor.state is State.RUNNING
    supervisor << RestartChild("a") << DeleteChild("b")
    await system.settle()
    assert (await by_name(supervisor))["a"].state is State.RUNNING
    assert system.ledger(supervisor).failed == 0


@pytest.mark.parametrize("message", ["hello", 3, None, object()])
async def test_what_is_no_request_is_unhandled(system: ActorSystem, message: object) -> None:  # J9, "an unhandled type"
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    with pytest.raises(Unhandled):
        await supervisor.ask(message)
    supervisor.tell(message)
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == [message, message]
    assert system.ledger(supervisor).unhandled == 2
    assert supervisor.state is State.RUNNING


async def test_an_actor_can_ask_the_supervisor_of_its_own(system: ActorSystem, clock: ManualClock) -> None:  # J10
    class Curious(Actor[Any, Any]):
        async def receive(self, message: Any) -> Any:
            parent = self.ctx.parent
            assert parent is not None
            return await parent.ask(message, timeout=None)

    stage = Stage()
    supervisor = await supervise(system, [ChildSpec("curious", Curious)], intensity=0)
    curious = await child_of(supervisor, "curious")
    ref = await curious.ask(StartChild(stage.child("b")))
    assert ref.state is State.RUNNING
    asked = curious.ask(StopChild("curious"), timeout=None)
    await clock.advance(5.0)  # it waits for its own end, and is cancelled in the end
    with pytest.raises(GreenroomError):
        await asked
    assert not curious.is_alive
    assert [name for name, info in (await by_name(supervisor)).items() if info.ref] == ["b"]


async def test_a_child_of_the_same_name_that_is_not_the_supervisors_is_in_the_way(system: ActorSystem) -> None:  # J9
    stage = Stage()

    class Own(Supervisor):
        def receive(self, message: Any) -> Any:
            return message(self.ctx) if callable(message) else super().receive(message)

    supervisor: ActorRef[Any, Any] = system.spawn(Own, Supervisor.spec(stage.children("a")))
    await supervisor.ask(lambda ctx: ctx.spawn(Worker, stage, "b", name="b"))
    with pytest.raises(NameTaken):
        await supervisor.ask(StartChild(stage.child("b")))
    assert list(await by_name(supervisor)) == ["a"]
