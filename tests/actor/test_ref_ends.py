"""Ending an actor through its ref: `stop`, `kill` and `fail`, from any thread and at any time (J5)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorRef, ActorSystem, ActorTerminated, Context, ExitKind, SystemFailed
from greenroom.testing import TestProbe
from tests.actor.diaries import AsyncDiary, Diary, flavours
from tests.actor.held import Held, reach

if TYPE_CHECKING:
    from tests.conftest import Play

DEADLINE = 120.0


@flavours
@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize(
    ("ending", "hooks", "kind"),
    [
        ("stop", ["pre_stop", "post_stop"], ExitKind.NORMAL),
        ("after_queued", [1, 2, "pre_stop", "post_stop"], ExitKind.NORMAL),
        ("kill", ["post_stop"], ExitKind.KILLED),
        ("fail", ["post_stop"], ExitKind.FAIL),
    ],
)
async def test_an_end_runs_the_hooks_that_belong_to_it(  # J5
    system: ActorSystem, diary: type[Diary], thread: bool, ending: str, hooks: list[Any], kind: ExitKind
) -> None:
    notes: list[Any] = []
    ref = system.spawn(diary, notes)
    await ref.started()
    notes.clear()
    act: dict[str, Callable[[], None]] = {
        "stop": ref.stop,
        "after_queued": lambda: ref.stop(after_queued=True),
        "kill": ref.kill,
        "fail": lambda: ref.fail(ValueError("x")),
    }
    if thread:

        def send_and_end() -> None:
            ref << 1 << 2
            act[ending]()

        other = threading.Thread(target=send_and_end)
        other.start()
        await asyncio.to_thread(other.join, DEADLINE)
    else:
        ref << 1 << 2
        act[ending]()
    assert (await ref.terminated()).kind is kind
    if ending == "after_queued" or not thread:
        assert notes == hooks
    else:  # the loop may have been quick enough to handle what came before the order
        assert notes[-len(hooks) :] == hooks


async def test_a_stop_after_what_is_queued_does_not_wait_for_what_comes_later(system: ActorSystem) -> None:
    notes: list[Any] = []
    ref = system.spawn(Diary, notes)
    ref << 1
    ref.stop(after_queued=True)
    ref << 2
    await ref.terminated()
    assert [letter.message for letter in system.dead_letters.recent()] == [2]
    assert notes == ["pre_start", "post_start", 1, "pre_stop", "post_stop"]


@pytest.mark.parametrize("ending", ["stop", "after_queued", "kill", "fail"])
async def test_ending_what_has_ended_does_nothing(system: ActorSystem, ending: str) -> None:
    probe = TestProbe(system)
    ref = system.spawn(Diary, [])
    await probe.watch(ref)
    ref.stop()
    ref.stop()
    first = await ref.terminated()
    act: dict[str, Callable[[], None]] = {
        "stop": ref.stop,
        "after_queued": lambda: ref.stop(after_queued=True),
        "kill": ref.kill,
        "fail": lambda: ref.fail(ValueError("x")),
    }
    act[ending]()
    await asyncio.to_thread(act[ending])
    await system.settle()
    assert await ref.terminated() == first
    await probe.expect_terminated(ref)
    await probe.expect_no()
    assert system.dead_letters.count == 0


async def test_a_kill_breaks_off_a_suspended_handler(system: ActorSystem) -> None:
    notes: list[str] = []
    ref = system.spawn(Held, notes, asyncio.Event(), "receive")
    asked = ref.ask("x", timeout=None)
    await reach(notes, "receive")
    ref.kill()
    with pytest.raises(ActorTerminated) as caught:
        await asked
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert caught.value.reason.kind is ExitKind.KILLED  # type: ignore[attr-defined]
    assert "pre_stop" not in notes
    assert "post_stop" in notes


async def test_a_kill_overtakes_a_stop_that_takes_its_time(system: ActorSystem) -> None:
    notes: list[str] = []
    ref = system.spawn(Held, notes, asyncio.Event(), "pre_stop")
    await ref.started()
    ref.stop()
    await reach(notes, "pre_stop")
    ref.kill()
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert "post_stop" in notes


@flavours
async def test_a_fail_from_outside_is_as_if_the_handler_had_raised(
    system: ActorSystem, diary: type[Diary]
) -> None:  # J5
    cause = ValueError("from outside")
    probe = TestProbe(system)
    ref = system.spawn(diary, [])
    await probe.watch(ref)
    await ref.started()
    ref.fail(cause)
    ref.fail(ValueError("a second one"))
    notice = await probe.expect_terminated(ref)
    assert notice.cause is cause
    assert notice.reason.kind is ExitKind.FAIL


async def test_a_fail_waits_for_the_message_in_hand(system: ActorSystem) -> None:
    notes: list[str] = []
    gate = asyncio.Event()
    ref = system.spawn(Held, notes, gate, "receive")
    asked = ref.ask("answer")
    await reach(notes, "receive")
    ref.fail(ValueError("x"))
    gate.set()
    assert await asked == "answer"
    assert (await ref.terminated()).kind is ExitKind.FAIL


@pytest.mark.parametrize("cause", ["text", None, ValueError, 3])
async def test_a_fail_needs_an_exception(system: ActorSystem, cause: Any) -> None:  # J9
    ref = system.spawn(AsyncDiary, [])
    with pytest.raises(TypeError, match="exception"):
        ref.fail(cause)
    assert await ref.ask("x") == "x"


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), SystemExit(3)])
def test_a_fail_with_what_ends_a_program_ends_the_system(play: Play, cause: BaseException) -> None:
    async def main() -> None:
        async def block() -> None:
            async with asyncio.timeout(DEADLINE), ActorSystem("test") as system:
                system.spawn(Diary, []).fail(cause)
                await system.stopped()

        with pytest.raises(SystemFailed) as caught:
            await block()
        assert caught.value.__cause__ is cause

    play.bare(main)


async def test_an_actor_may_end_itself_through_its_own_ref(system: ActorSystem) -> None:
    def handler(ctx: Context, message: str) -> str:
        getattr(ctx.self, message)()
        return "after the message in hand"

    for order, kind in (("stop", ExitKind.NORMAL), ("kill", ExitKind.KILLED)):
        ref: ActorRef[Any, Any] = system.spawn(handler)
        assert await ref.ask(order) == "after the message in hand"
        assert (await ref.terminated()).kind is kind
