"""Handlers that are cancelled because their actor has to end, and those that must not be (case 57)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, ActorTerminated, Context, ExitKind, ManualClock
from tests.conformance.askers import until
from tests.conformance.lives import HookedAsync, ended
from tests.gates import Gate, turns

if TYPE_CHECKING:
    from tests.conftest import Play

STOP_TIMEOUT = 3.0


def test_an_actor_is_not_forced_unless_it_was_told_to_end(play: Play) -> None:  # case 57
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
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

    system = play(program, clock=clock, stop_timeout=STOP_TIMEOUT)
    assert system.report is not None
    assert system.report.forced == ()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_handler_that_is_cancelled_may_clean_up(play: Play, how: str) -> None:  # case 57
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
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
        reason = await ended(system, ref)
        assert reason.kind is (ExitKind.KILLED if how == "kill" else ExitKind.NORMAL)
        assert system.ledger(ref).handled == 1

    play(program, clock=clock, stop_timeout=STOP_TIMEOUT)


def test_a_killed_asker_leaves_a_late_reply_behind(play: Play) -> None:  # case 57, case 28
    async def program(system: ActorSystem) -> None:
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

    play(program)


@pytest.mark.parametrize("hook", ["pre_start", "receive", "pre_stop"])
def test_a_kill_while_a_kill_is_under_way_changes_nothing(play: Play, hook: str) -> None:  # case 57
    clock = ManualClock()
    cancellations: list[str] = []

    async def swallow(_: Context) -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                cancellations.append("cancelled")

    async def program(system: ActorSystem) -> None:
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

    system = play(program, clock=clock)
    assert system.report is not None
    assert system.report.forced == ("/deaf",)
