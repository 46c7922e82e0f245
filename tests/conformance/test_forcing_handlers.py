"""Handlers that are cancelled because their actor has to end, and those that must not be (case 57)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    ChildSpec,
    Context,
    ExitKind,
    ManualClock,
    Supervisor,
)
from greenroom.errors import ConfigError
from tests.conformance.askers import until
from tests.conformance.lives import HookedAsync, ended
from tests.gates import Gate, turns

STOP_TIMEOUT = 3.0


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_an_actor_is_not_forced_unless_it_was_told_to_end(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57
    gate = Gate()

    async def inspect_myself(ctx: Context, message: Any) -> str:
        look = ctx.self.inspect(timeout=None)  # which waits for this handler to end
        inspecting.append(asyncio.ensure_future(look))
        return str(await gate)

    inspecting: list[asyncio.Future[Any]] = []
    ref = system.spawn(inspect_myself)
    asked = ref.ask("go", timeout=None)
    for _ in range(10):
        await turns(1)
        await clock.advance(10 * STOP_TIMEOUT)
    assert not asked.done()
    gate.set_result("still there")
    assert await asked == "still there"
    assert ref.is_alive
    await system.shutdown()
    assert system.report is not None
    assert system.report.forced == ()


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_handler_that_is_cancelled_may_clean_up(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # case 57
    cleaning = Gate()

    async def tidy(ctx: Context, message: Any) -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await cleaning
        return "tidied up"

    ref = system.spawn(tidy)
    asked = ref.ask("go", timeout=None)
    await clock.advance(0.0)
    getattr(ref, how)()
    await clock.advance(0.0 if how == "kill" else STOP_TIMEOUT)
    cleaning.set_result(None)
    assert await asked == "tidied up"
    assert (await ended(system, ref)).kind is ExitKind.KILLED
    assert system.ledger(ref).handled == 1


async def test_a_killed_asker_leaves_a_late_reply_behind(system: ActorSystem) -> None:  # case 57, case 28
    gate = Gate()
    slow = system.spawn(HookedAsync)
    asker = system.spawn(HookedAsync)

    async def ask_and_wait(ctx: Context) -> Any:
        return await slow.ask(lambda _: gate, timeout=None)

    asked = asker.ask(ask_and_wait, timeout=None)
    await until(lambda: system.ledger(slow).in_hand)
    asker.kill()
    with pytest.raises(ActorTerminated):
        await asked
    assert (await ended(system, asker)).kind is ExitKind.KILLED
    gate.set_result("too late")
    await system.settle()
    assert system.ledger().late_replies == 1
    assert [letter.message for letter in system.dead_letters.recent()] == ["too late"]
    assert slow.is_alive


@pytest.mark.parametrize("hook", ["pre_start", "receive", "pre_stop"])
async def test_a_kill_while_a_kill_is_under_way_changes_nothing(
    system: ActorSystem, clock: ManualClock, hook: str
) -> None:  # case 57
    cancellations: list[str] = []

    async def swallow(_: Context) -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                cancellations.append("cancelled")

    ref = system.spawn(HookedAsync, None, name="deaf", **({} if hook == "receive" else {hook: swallow}))
    if hook == "receive":
        ref.tell(swallow)
    elif hook == "pre_stop":
        ref.stop()
    await clock.advance(0.0)
    for _ in range(3):
        ref.kill()
        ref.stop()
        await clock.advance(0.1)
    assert cancellations == ["cancelled"]
    await clock.advance(2.0)
    assert (await ended(system, ref)).kind is ExitKind.KILLED
    await system.shutdown()
    assert system.report is not None
    assert system.report.forced == ("/deaf",)


class Leaving(Actor[Any, Any]):
    """Stops itself in the middle of a message, and takes its time for the rest."""

    def __init__(self, gate: Gate, log: list[str], first: bool = True) -> None:
        self.gate = gate
        self.log = log
        self.first = first

    async def receive(self, message: Any) -> str:
        if not self.first:
            await asyncio.sleep(0)
        self.ctx.stop()
        try:
            await self.gate
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        self.log.append("done")
        return "done"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_an_actor_that_stops_itself_may_take_its_time_for_the_message_in_hand(
    system: ActorSystem, clock: ManualClock, first: bool
) -> None:  # case 57, M5
    gate, log = Gate(), list[str]()
    ref = system.spawn(Leaving, gate, log, first)
    asked = ref.ask("go", timeout=None)
    ref.tell("too late")
    for _ in range(3):
        await clock.advance(10 * STOP_TIMEOUT)
    assert log == []
    gate.set_result(None)
    assert await asked == "done"
    assert (await ended(system, ref)).kind is ExitKind.NORMAL
    assert log == ["done"]
    assert system.ledger(ref).dead_lettered == 1
    await system.shutdown()
    assert system.report is not None
    assert system.report.forced == ()


@pytest.mark.parametrize("how", ["stop", "parent", "shutdown"])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_whoever_stops_it_from_outside_waits_no_longer_for_that(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # case 57, M5
    gate, log = Gate(), list[str]()
    parent = system.spawn(HookedAsync)
    ref = system.spawn(Leaving, gate, log, parent=parent)
    ref.tell("go")
    await clock.advance(10 * STOP_TIMEOUT)
    assert log == []
    if how == "shutdown":
        ending = asyncio.ensure_future(system.shutdown(drain=False))
    else:
        (ref if how == "stop" else parent).stop()
        ending = asyncio.ensure_future(ref.terminated())  # type: ignore[arg-type]
    await clock.advance(STOP_TIMEOUT)
    await clock.advance(0.0)
    await ending
    assert log == ["cancelled"]


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_the_deadline_of_a_hook_starts_when_the_actor_that_stops_itself_comes_to_it(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57
    gate, log = Gate(), list[str]()

    class Slow(Leaving):
        async def pre_stop(self) -> None:
            self.log.append("pre_stop")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.log.append("left")

    ref = system.spawn(Slow, gate, log)
    ref.tell("go")
    await clock.advance(10 * STOP_TIMEOUT)
    gate.set_result(None)
    await clock.advance(0.9 * STOP_TIMEOUT)
    assert log == ["done", "pre_stop"]
    await clock.advance(0.2 * STOP_TIMEOUT)
    await ended(system, ref)
    assert log == ["done", "pre_stop", "left"]


@pytest.mark.parametrize(
    ("given", "of_parent", "seconds"),
    [
        (1.0, None, 1.0),
        (10, None, 10.0),
        (None, 20.0, 20.0),
        (2.0, 20.0, 2.0),
        (None, None, STOP_TIMEOUT),
        (0, None, 0.0),
    ],
)
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_spawn_says_how_long_its_actor_and_the_children_of_that_have_to_stop(
    system: ActorSystem, clock: ManualClock, given: Any, of_parent: float | None, seconds: float
) -> None:  # case 57, M5
    log: list[str] = []

    class Hanging(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                log.append("left")

    parent = system.spawn(HookedAsync, stop_timeout=of_parent)
    ref = system.spawn(Hanging, parent=parent, stop_timeout=given)
    ref.tell("go")
    await clock.advance(0.0)
    ref.stop()
    if seconds:
        await clock.advance(0.9 * seconds)
        assert log == []
    await clock.advance(0.2 * seconds)
    await ended(system, ref)
    assert log == ["left"]


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_parent_waits_for_its_children_as_long_as_its_spawn_says(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57, M5
    gate, log = Gate(), list[str]()

    class Slow(HookedAsync):
        async def post_stop(self) -> None:
            await gate
            log.append("done")

    parent = system.spawn(HookedAsync, stop_timeout=100.0)
    child = system.spawn(Slow, parent=parent)
    await child.started()
    parent.stop()
    await clock.advance(10 * STOP_TIMEOUT)
    gate.set_result(None)
    assert (await ended(system, parent)).kind is ExitKind.NORMAL
    assert log == ["done"]
    await system.shutdown()
    assert system.report is not None
    assert system.report.forced == ()


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_childs_spec_says_it_before_its_supervisors_spawn(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57, J10
    gate, log = Gate(), list[str]()

    class Hung(Leaving):
        async def receive(self, message: Any) -> str:
            try:
                await self.gate
            except asyncio.CancelledError:
                self.log.append("cancelled")
            return ""

    spec = Supervisor.spec([ChildSpec("slow", Hung, (gate, log), shutdown=1.0)])
    supervisor = system.spawn(Supervisor, spec, stop_timeout=100.0)
    await supervisor.started()
    child = system.actor(f"{supervisor.path}/slow")
    assert child is not None
    child.tell("go")
    await clock.advance(0.0)
    supervisor.stop()
    await clock.advance(1.1)
    await ended(system, supervisor)
    assert log == ["cancelled"]


@pytest.mark.parametrize("wrong", [-1, float("inf"), float("nan"), "5", True])
async def test_a_wrong_stop_timeout_is_refused_by_spawn(system: ActorSystem, wrong: Any) -> None:  # J9
    with pytest.raises(ConfigError, match=r"stop_timeout=.* must be a number of seconds, zero or more"):
        system.spawn(HookedAsync, stop_timeout=wrong)
    assert system.actors() == []
