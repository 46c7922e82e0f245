"""Checks of an actor's states, its end, and whether its exception is the one that was expected (M19)."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import pytest

from greenroom import ActorRef, ActorSystem, Context, ExitKind, ExitReason, State, Supervision
from greenroom.errors import BadArgument
from greenroom.testing import ActorHarness, assert_ended, assert_states
from greenroom.testing.checks.lifecycles import difference_between

AT_ONCE = Supervision(backoff=None)


def note(ctx: Context, message: Any) -> None:
    pass


def raises(ctx: Context, message: BaseException) -> None:
    raise message


# -- states


@pytest.mark.config(history=True)
async def test_the_states_of_a_life_are_checked_one_by_one(system: ActorSystem) -> None:
    ref = system.spawn(note)
    assert assert_states(ref, State.CREATED) == (State.CREATED,)
    await ref.started()
    assert_states(ref, State.CREATED, State.STARTING, State.RUNNING)
    ref.stop()
    await ref.terminated()
    assert_states(ref, "created", "starting", "running", "stopping", "stopped", "terminated")
    assert_states(ref, "CREATED", ..., State.STOPPING, ..., "Terminated")


@pytest.mark.config(history=True)
async def test_the_states_over_a_restart_are_checked(system: ActorSystem) -> None:
    ref = system.spawn(raises, supervision=AT_ONCE)
    ref.tell(ValueError("bad"))
    await system.settle()
    assert_states(ref, ..., "running", "failed", "restarting", "starting", "running")


@pytest.mark.config(history=True)
async def test_other_states_than_the_expected_fail_and_are_told(system: ActorSystem) -> None:
    ref = system.spawn(note, name="worker")
    await ref.started()
    with pytest.raises(AssertionError) as caught:
        assert_states(ref, "created", "running")
    assert str(caught.value) == ("/worker should have been created, running; it was created, starting, running")
    for wrong in ([], ["created"], ["created", ..., "starting"], [..., "created", ..., "created", ...]):
        with pytest.raises(AssertionError, match="should have been"):
            assert_states(ref, *wrong)


@pytest.mark.config(history=True)
async def test_states_that_may_be_still_to_come_are_told_apart(system: ActorSystem) -> None:
    ref = system.spawn(note)
    with pytest.raises(AssertionError, match=r"still to come: await `ref\.started\(\)`"):
        assert_states(ref, "created", "starting", "running")


async def test_states_can_be_checked_in_a_system_that_keeps_them_only(system: ActorSystem) -> None:
    ref = system.spawn(note, name="worker")
    for states in (["created"], []):
        with pytest.raises(AssertionError, match=r"/worker does not remember .*'test' a SystemConfig\(history=True\)"):
            assert_states(ref, *states)


def test_the_states_of_an_actor_in_a_harness_can_be_checked() -> None:
    with ActorHarness(note) as harness:
        assert_states(harness.ref, "created", "starting", "running")
        harness.stop()
        assert_states(harness.ref, ..., "running", "stopping", "stopped", "terminated")
        with pytest.raises(AssertionError, match="should have been created; it was created, starting"):
            assert_states(harness.ref, "created")


@pytest.mark.config(history=True)
async def test_what_is_no_state_is_refused(system: ActorSystem) -> None:
    with pytest.raises(BadArgument, match="'happy' is no state of an actor: there are created,"):
        assert_states(system.spawn(note), "happy")


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
async def test_an_end_is_as_expected(system: ActorSystem, end: Any, how: list[Any]) -> None:
    ref = system.spawn(raises)
    expected = asyncio.create_task(assert_ended(ref, *how))
    end(ref)
    reason = await expected
    assert reason == await ref.terminated()
    assert await assert_ended(ref, *how) == reason


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
async def test_another_end_than_the_expected_fails(system: ActorSystem, end: Any, how: list[Any], told: str) -> None:
    ref = system.spawn(raises, name="worker")
    end(ref)
    with pytest.raises(AssertionError, match=f"^/worker should have ended {told}"):
        await assert_ended(ref, *how)


async def test_an_end_with_another_attribute_fails(system: ActorSystem) -> None:
    ref = system.spawn(raises, name="worker")
    ref.tell(Refused(code=5))
    for how in (Refused(code=6), ExitReason.of(Refused(code=6))):
        with pytest.raises(AssertionError, match=r"^/worker should have ended .*\(its code is 5, not 6\)$"):
            await assert_ended(ref, how)


async def test_an_end_that_does_not_come_fails(system: ActorSystem) -> None:
    ref = system.spawn(note, name="worker")
    with pytest.raises(AssertionError, match=r"/worker should have ended \(killed\) and is still running"):
        await assert_ended(ref, "killed", timeout=0.01)
    assert ref.is_alive


async def test_what_is_no_kind_of_end_is_refused_at_once(system: ActorSystem) -> None:
    with pytest.raises(BadArgument, match="'happy' is no kind of end: there are normal,"):
        await assert_ended(system.spawn(note), "happy")


def test_the_end_of_an_actor_on_another_thread_can_be_awaited() -> None:
    with ActorSystem() as system:
        ref = system.spawn(note)
        ref.stop()
        asyncio.run(assert_ended(ref, ExitKind.NORMAL))


@dataclass
class Burnt(Exception):
    """Its arguments depend on how it was made."""

    dish: str
    cause: BaseException | None = None


class Cold(Exception):
    def __init__(self, dish: str, served: float) -> None:
        super().__init__(dish, served)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cold) and self.args[0] == other.args[0]

    __hash__ = Exception.__hash__


def group(*excs: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("some", excs)


def noted(exc: BaseException, note: str) -> BaseException:
    exc.add_note(note)
    return exc


def caused(exc: BaseException, cause: BaseException) -> BaseException:
    exc.__cause__ = cause
    return exc


@pytest.mark.parametrize(
    ("came", "wanted"),
    [
        (Refused(code=5), Refused(code=5)),
        (Burnt("soup"), Burnt(dish="soup")),
        (Burnt("soup", ValueError("hot")), Burnt("soup", ValueError("hot"))),
        (Cold("soup", 1.0), Cold("soup", 2.0)),
        (FileNotFoundError(2, "not there", "a.txt"), FileNotFoundError(2, "not there", "a.txt")),
        (group(ValueError(1), Refused(code=5)), group(ValueError(1), Refused(code=5))),
        (noted(ValueError("bad"), "while it rained"), ValueError("bad")),
        (noted(ValueError("bad"), "while it rained"), noted(ValueError("bad"), "at night")),
        (caused(ValueError("bad"), KeyError(1)), ValueError("bad")),
        (None, None),
    ],
)
def test_exceptions_made_in_the_same_way_are_alike(came: Any, wanted: Any) -> None:
    assert difference_between(came, wanted) is None
    assert difference_between(wanted, came) is None


@pytest.mark.parametrize(
    ("came", "wanted", "told"),
    [
        (Refused(code=5), Refused(code=6), "its code is 5, not 6"),
        (Burnt(dish="soup"), Burnt(dish="cake"), "its dish is 'soup', not 'cake'"),
        (Burnt("soup", KeyError(1)), Burnt("soup", KeyError(2)), "its arguments are .*KeyError.1.*, not .*KeyError.2"),
        (Cold("soup", 1.0), Cold("cake", 1.0), "its arguments are .*'soup'.*, not .*'cake'"),
        (
            FileNotFoundError(2, "gone", "a"),
            FileNotFoundError(2, "gone", "b"),
            "it says .*: 'a', not .*: 'b'$",
        ),
        (group(ValueError(1)), group(ValueError(2)), r"its arguments are .*ValueError\(1\).*, not .*ValueError\(2\)"),
        (group(ValueError(1)), group(ValueError(1), ValueError(1)), "its arguments are"),
        (ValueError("bad"), UnicodeError("bad"), "it is ValueError, not UnicodeError"),
        (None, ValueError("bad"), "it is no exception, not ValueError"),
        (ValueError("bad"), None, "it is ValueError, not no exception"),
    ],
)
def test_exceptions_that_differ_in_anything_are_told_apart(came: Any, wanted: Any, told: str) -> None:
    assert re.match(told, difference_between(came, wanted) or "")
    assert difference_between(wanted, came) is not None


def test_an_attribute_that_only_one_has_tells_exceptions_apart() -> None:
    came, wanted = ValueError("bad"), ValueError("bad")
    came.code = 5  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert difference_between(came, wanted) == "it has a code, 5"
    assert difference_between(wanted, came) == "it has no code"
