"""Whoever was forced to end was killed: to its askers, its watchers and in the report alike (case 57, M5, M11)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    ChildSpec,
    Down,
    Exit,
    ExitKind,
    ExitReason,
    Restart,
    Supervision,
    Supervisor,
    SystemConfig,
)
from tests.culprits import Culprit, Stuck, StuckInHook

PLACES = pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned", "process"])
BRIEF = SystemConfig(stop_timeout=0.05)


class Observing(Actor[Any, Any]):
    """Watches, monitors and is linked to one actor, and hears when that has begun."""

    def __init__(self, begun: asyncio.Event) -> None:
        self.begun = begun
        self.seen: list[Any] = []

    def receive(self, message: Any) -> Any:
        match message:
            case "begun":
                self.begun.set()
            case "seen":
                return self.seen
            case Down(reason=reason) | Exit(reason=reason):
                self.seen.append((type(message).__name__, reason))
            case ref:
                self.ctx.trap_exit = True
                self.ctx.watch(ref)
                self.ctx.monitor(ref)
                self.ctx.link(ref)
        return None

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.seen.append(("Terminated", cause))


class Scene:
    """A stuck actor, and somebody who observes it."""

    def __init__(self, system: ActorSystem, stuck: ActorRef[Any, Any]) -> None:
        self.system = system
        self.stuck = stuck
        self.begun = asyncio.Event()
        self.observing = system.spawn(Observing, self.begun)

    async def check(self, forced: tuple[str, ...]) -> ExitReason:
        """How it ended, which must be the same to all."""
        reason = await asyncio.wait_for(self.stuck.terminated(), 120)
        await self.system.settle()
        assert reason.kind is ExitKind.KILLED
        seen = await self.observing.ask("seen")
        assert sorted(seen, key=str) == [("Down", reason), ("Exit", reason), ("Terminated", None)]
        assert tuple(self.system._life.forced.paths()) == forced
        return reason


@PLACES
@pytest.mark.parametrize("order", ["stop", "after queued", "shutdown"])
def test_a_handler_that_is_cancelled_at_the_deadline_was_killed(dispatcher: str, order: str) -> None:
    async def main() -> None:
        async with ActorSystem(config=BRIEF) as system:
            scene = Scene(system, system.spawn(Stuck, dispatcher=dispatcher, name="stuck"))
            stuck = scene.stuck
            await scene.observing.ask(stuck)
            asks = [stuck.ask(scene.observing, timeout=None)]
            await asyncio.wait_for(scene.begun.wait(), 120)
            if order == "after queued":
                stuck.stop(after_queued=True)
                asks.append(stuck.ask(scene.observing, timeout=None))
                stuck.stop()
            elif order == "stop":
                asks.append(stuck.ask(scene.observing, timeout=None))
                stuck.stop()
            else:
                asks.append(stuck.ask(scene.observing, timeout=None))
                await system.shutdown(drain=False)
                assert (await stuck.terminated()).kind is ExitKind.KILLED
            for ask in asks:
                with pytest.raises(ActorTerminated) as caught:
                    await ask
                assert isinstance(caught.value.reason, ExitReason)
                assert caught.value.reason.kind is ExitKind.KILLED
            if order != "shutdown":
                await scene.check(("/stuck",))
        assert system.report is not None
        assert system.report.forced == ("/stuck",)

    asyncio.run(main())


@PLACES
def test_a_hook_that_is_cancelled_at_the_deadline_was_killed(dispatcher: str) -> None:
    async def main() -> None:
        async with ActorSystem(config=BRIEF) as system:
            scene = Scene(system, system.spawn(StuckInHook, dispatcher=dispatcher, name="stuck"))
            await scene.observing.ask(scene.stuck)
            await scene.stuck.ask(scene.observing, timeout=None)
            scene.stuck.stop()
            await scene.check(("/stuck",))

    asyncio.run(main())


def test_one_that_fails_as_it_is_cancelled_has_failed() -> None:
    class Spiteful(Actor[Any, Any]):
        async def receive(self, message: Any) -> Any:
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                raise ValueError("so there")

    begun = asyncio.Event()

    async def main() -> None:
        async with ActorSystem(config=BRIEF) as system:
            ref = system.spawn(Spiteful, name="spiteful")
            ask = ref.ask("wait", timeout=None)
            await begun.wait()
            ref.stop()
            with pytest.raises(ValueError, match="so there"):
                await ask
            assert (await ref.terminated()).kind is ExitKind.FAIL
        assert system.report is not None
        assert system.report.forced == ("/spiteful",)

    asyncio.run(main())


def test_a_transient_child_that_was_forced_is_restarted_and_then_stops_as_any() -> None:
    class Transient(Stuck):
        def post_restart(self) -> None:
            again.set()

    begun, again = asyncio.Event(), asyncio.Event()

    async def main() -> None:
        spec = Supervisor.spec(children=[ChildSpec("child", Transient, restart=Restart.TRANSIENT, shutdown=0.05)])
        async with ActorSystem(config=BRIEF) as system:
            await system.spawn(Supervisor, spec, name="boss").started()
            child = system.actor("/boss/child")
            assert child is not None
            child.tell(system.spawn(Observing, begun))
            await begun.wait()
            child.stop()
            await asyncio.wait_for(again.wait(), 120)
            child.stop()
            assert (await child.terminated()).kind is ExitKind.NORMAL

    asyncio.run(main())


def test_one_that_stops_in_time_was_not_killed() -> None:
    async def main() -> None:
        async with ActorSystem(config=SystemConfig(supervision=Supervision(backoff=None))) as system:
            ref = system.spawn(Culprit)
            await ref.started()
            ref.stop()
            assert (await ref.terminated()).kind is ExitKind.NORMAL

    asyncio.run(main())
