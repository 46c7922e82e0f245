"""Why a system ended: failures that end it, its root, and those who ask for it from elsewhere (M11, M14)."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    Behaviors,
    Context,
    Directive,
    ExitKind,
    Supervision,
    SystemConfig,
    SystemFailed,
)
from greenroom.testing import assert_ledger_balanced
from tests.conformance.askers import until
from tests.conformance.lives import Hooked, Plain, PlainAsync, assert_ended_once, raises

if TYPE_CHECKING:
    from tests.conftest import Play

PATIENCE = 120.0


@pytest.mark.parametrize("kind", [Plain, PlainAsync])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_programs_ends_the_system_with_that_cause(play: Play, kind: Any, error: Any) -> None:  # M11
    cause = error("on purpose")

    async def program(system: ActorSystem) -> None:
        system.spawn(Hooked)
        ref = system.spawn(kind)
        asked = ref.ask(raises(cause), timeout=None)
        ref.tell("queued")
        with pytest.raises(ActorTerminated):
            await asked
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is cause
    assert caught.value.code == "system_failed"
    assert play.raised == []
    assert play.system is not None
    assert_ended_once(play.system, 2)
    ledger = play.system.ledger()
    assert (ledger.failed, ledger.dead_lettered) == (1, 1)
    assert play.system.report is not None
    assert play.system.report.cause is cause


def test_a_failure_of_the_program_itself_is_not_hidden_by_the_systems(play: Play) -> None:  # M11
    async def program(system: ActorSystem) -> None:
        system.fail(ValueError("the system's"))
        raise LookupError("the program's")

    with pytest.raises(LookupError):
        play(program)
    assert play.system is not None
    assert_ended_once(play.system, 0)


@pytest.mark.parametrize("step", ["init", "pre_start", "post_start", "receive"])
def test_a_failing_root_ends_the_system_with_its_cause(play: Play, step: str) -> None:  # M11, M14
    cause = ValueError("on purpose")
    act = raises(cause)

    def make() -> Actor[Any, Any]:
        return Hooked(None, **{step: act})

    async def program(system: ActorSystem) -> None:
        assert system.root is not None
        system.spawn(Hooked)
        system.root.tell(act)
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program, root=make)
    assert caught.value.__cause__ is cause
    assert play.system is not None
    assert_ended_once(play.system, 2)


@pytest.mark.parametrize("end", ["stop", "kill", "behavior"])
@pytest.mark.config(root=Hooked)
async def test_the_system_ends_with_its_root(system: ActorSystem, end: str) -> None:  # M11, M14
    assert system.root is not None
    other = system.spawn(Hooked)
    system.root.tell(lambda _: Behaviors.stopped) if end == "behavior" else getattr(system.root, end)()
    await system.stopped()
    assert (await other.terminated()).kind is ExitKind.SHUTDOWN
    assert_ended_once(system, 2)


def test_run_blocks_until_the_system_has_stopped_and_raises_its_failure() -> None:  # M11, J2
    ended = ActorSystem(root=Behaviors.setup(lambda ctx: Behaviors.receive(lambda _, message: Behaviors.stopped)))
    assert ended.root is not None
    ended.root.tell("stop")
    ended.run()
    assert_ended_once(ended, 1)

    failed = ActorSystem(root=Plain, config=SystemConfig(supervision=Supervision(Directive.STOP)))
    assert failed.root is not None
    failed.root.tell(raises(ValueError("on purpose")))
    with pytest.raises(SystemFailed, match="on purpose"):
        failed.run()
    assert_ended_once(failed, 1)


def test_a_plain_with_reports_the_failure_too() -> None:  # M11
    cause = KeyboardInterrupt("on purpose")
    system = ActorSystem()

    def run() -> None:
        with system:
            system.spawn(Plain).tell(raises(cause))
            while system.phase != "stopped":
                threading.Event().wait(0.001)

    with pytest.raises(SystemFailed) as caught:
        run()
    assert caught.value.__cause__ is cause


def test_the_first_cause_is_the_one_that_is_reported(play: Play) -> None:  # M11
    first = KeyboardInterrupt("first")

    async def program(system: ActorSystem) -> None:
        system.spawn(Hooked, None, post_stop=raises(SystemExit("second")))
        other = system.spawn(Hooked)
        await system.settle()
        other.tell(raises(first))
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is first


@pytest.mark.real
def test_a_system_may_be_failed_from_another_thread(play: Play) -> None:  # M11, J5
    cause = ValueError("on purpose")

    async def program(system: ActorSystem) -> None:
        system.spawn(Hooked)
        await asyncio.to_thread(system.fail, cause)
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("act", ["stop", "fail"])
def test_a_system_that_runs_elsewhere_can_be_ended_from_here(act: str) -> None:  # M11, J2: it wakes up for that
    cause = ValueError("on purpose")
    system = ActorSystem()
    outcome: list[BaseException | None] = []
    started = threading.Event()

    def run() -> None:
        try:
            system.run()
            outcome.append(None)
        except SystemFailed as exc:
            outcome.append(exc.__cause__)

    system.spawn(Hooked, None, post_start=lambda _: started.set())
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(PATIENCE)
    system.stop() if act == "stop" else system.fail(cause)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert outcome == [None if act == "stop" else cause]
    assert_ended_once(system, 1)


def test_a_system_does_not_outlive_its_asyncio_loop(play: Play) -> None:  # case 59: it ends
    systems: list[ActorSystem] = []
    left: list[str] = []

    async def endless(ctx: Context, message: Any) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            left.append("the handler")

    async def main() -> None:
        async with asyncio.timeout(None) as limit, ActorSystem() as system:
            systems.append(system)
            ref = system.spawn(endless, name="endless")
            ref.tell("in hand")
            ref.tell("queued")
            await until(lambda: system.ledger(ref).in_hand)
            limit.reschedule(asyncio.get_running_loop().time() + 0.05)

    with pytest.raises(TimeoutError):
        play.bare(main)
    (system,) = systems
    assert left == ["the handler"]
    assert system.phase == "stopped"
    assert system.report is not None
    assert system.report.forced == ("/endless",)
    ledger = assert_ledger_balanced(system)
    assert ledger.queued == ledger.in_hand == 0
