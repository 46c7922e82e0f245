"""Checks of an actor's life: its states, and its end (M19)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorRef, ActorSystem, Context, ExitKind, ExitReason, State, Supervision
from greenroom.errors import BadArgument
from greenroom.testing import ActorHarness, assert_ended, assert_states

if TYPE_CHECKING:
    from tests.conftest import Play

AT_ONCE = Supervision(backoff=None)


def note(ctx: Context, message: Any) -> None:
    pass


def raises(ctx: Context, message: BaseException) -> None:
    raise message


# -- states


def test_the_states_of_a_life_are_checked_one_by_one(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(note)
        assert assert_states(ref, State.CREATED) == (State.CREATED,)
        await ref.started()
        assert_states(ref, State.CREATED, State.STARTING, State.RUNNING)
        ref.stop()
        await ref.terminated()
        assert_states(ref, "created", "starting", "running", "stopping", "stopped", "terminated")
        assert_states(ref, "CREATED", ..., State.STOPPING, ..., "Terminated")

    play(program, history=True)


def test_the_states_over_a_restart_are_checked(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(raises, supervision=AT_ONCE)
        ref.tell(ValueError("bad"))
        await system.settle()
        assert_states(ref, ..., "running", "failed", "restarting", "starting", "running")

    play(program, history=True)


def test_other_states_than_the_expected_fail_and_are_told(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(note, name="worker")
        await ref.started()
        with pytest.raises(AssertionError) as caught:
            assert_states(ref, "created", "running")
        assert str(caught.value) == ("/worker should have been created, running; it was created, starting, running")
        for wrong in ([], ["created"], ["created", ..., "starting"], [..., "created", ..., "created", ...]):
            with pytest.raises(AssertionError, match="should have been"):
                assert_states(ref, *wrong)

    play(program, history=True)


def test_states_that_may_be_still_to_come_are_told_apart(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(note)
        with pytest.raises(AssertionError, match=r"still to come: await `ref\.started\(\)`"):
            assert_states(ref, "created", "starting", "running")

    play(program, history=True)


def test_states_can_be_checked_in_a_system_that_keeps_them_only(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(note, name="worker")
        for states in (["created"], []):
            with pytest.raises(
                AssertionError, match=r"/worker does not remember .*'test' a SystemConfig\(history=True\)"
            ):
                assert_states(ref, *states)

    play(program)


def test_the_states_of_an_actor_in_a_harness_can_be_checked() -> None:
    with ActorHarness(note) as harness:
        assert_states(harness.ref, "created", "starting", "running")
        harness.stop()
        assert_states(harness.ref, ..., "running", "stopping", "stopped", "terminated")
        with pytest.raises(AssertionError, match="should have been created; it was created, starting"):
            assert_states(harness.ref, "created")


def test_what_is_no_state_is_refused(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(BadArgument, match="'happy' is no state of an actor: there are created,"):
            assert_states(system.spawn(note), "happy")

    play(program, history=True)


# -- ends

CAUSE = ValueError("bad")


class Refused(Exception):
    """What it is about is in its attributes alone."""

    def __init__(self, *, code: int) -> None:
        super().__init__()
        self.code = code


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (ActorRef.stop, [ExitKind.NORMAL]),
        (ActorRef.kill, ["killed"]),
        (ActorRef.kill, [ExitReason(ExitKind.KILLED)]),
        (lambda ref: ref.tell(CAUSE), [ExitKind.FAIL, ValueError]),
        (lambda ref: ref.tell(CAUSE), [Exception, "FAIL", CAUSE]),
        (lambda ref: ref.tell(CAUSE), [ValueError("bad")]),
        (lambda ref: ref.tell(CAUSE), [ExitReason(ExitKind.FAIL, CAUSE)]),
        (lambda ref: ref.tell(GeneratorExit()), [ExitKind.PANIC, GeneratorExit]),
        (lambda ref: ref.tell(CAUSE), [ExitReason.of(ValueError("bad"))]),
        (lambda ref: ref.tell(Refused(code=5)), [ExitReason.of(Refused(code=5)), Refused(code=5)]),
        (ActorRef.stop, []),
    ],
)
def test_an_end_is_as_expected(play: Play, end: Any, how: list[Any]) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(raises)
        expected = asyncio.create_task(assert_ended(ref, *how))
        end(ref)
        reason = await expected
        assert reason == await ref.terminated()
        assert await assert_ended(ref, *how) == reason

    play(program)


@pytest.mark.parametrize(
    ("end", "how", "told"),
    [
        (ActorRef.stop, [ExitKind.KILLED], r"otherwise \(killed\), and ended so: normal"),
        (ActorRef.stop, [ValueError], r"otherwise \(ValueError\), and ended so: normal"),
        (lambda ref: ref.tell(CAUSE), [KeyError], r"otherwise \(KeyError\), and ended so: fail: ValueError: bad"),
        (
            lambda ref: ref.tell(CAUSE),
            ["fail", ValueError("x")],
            r"otherwise \(fail, ValueError\('x'\)\), and ended so: fail: ",
        ),
        (lambda ref: ref.tell(CAUSE), [ExitReason(ExitKind.FAIL)], r"otherwise \(fail\), and ended so: fail: Val"),
        (
            lambda ref: ref.tell(CAUSE),
            [ExitReason.of(ValueError("x"))],
            r"otherwise \(fail: ValueError: x\), and ended so: fail: ValueError: bad \(its arguments are \('bad',\), ",
        ),
        (
            lambda ref: ref.tell(CAUSE),
            [ExitReason(ExitKind.PANIC, CAUSE)],
            r"otherwise \(panic: .*so: fail: Val.*: bad$",
        ),
    ],
)
def test_another_end_than_the_expected_fails(play: Play, end: Any, how: list[Any], told: str) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(raises, name="worker")
        end(ref)
        with pytest.raises(AssertionError, match=f"^/worker should have ended {told}"):
            await assert_ended(ref, *how)

    play(program)


def test_an_end_with_another_attribute_fails(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(raises, name="worker")
        ref.tell(Refused(code=5))
        for how in (Refused(code=6), ExitReason.of(Refused(code=6))):
            with pytest.raises(AssertionError, match=r"^/worker should have ended .*\(its code is 5, not 6\)$"):
                await assert_ended(ref, how)

    play(program)


def test_an_end_that_does_not_come_fails(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(note, name="worker")
        with pytest.raises(AssertionError, match=r"/worker should have ended \(killed\) and is still running"):
            await assert_ended(ref, "killed", timeout=0.01)
        assert ref.is_alive

    play(program)


def test_what_is_no_kind_of_end_is_refused_at_once(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(BadArgument, match="'happy' is no kind of end: there are normal,"):
            await assert_ended(system.spawn(note), "happy")

    play(program)


def test_the_end_of_an_actor_on_another_thread_can_be_awaited() -> None:
    with ActorSystem() as system:
        ref = system.spawn(note)
        ref.stop()
        asyncio.run(assert_ended(ref, ExitKind.NORMAL))
