"""Restarts in trouble: hooks that raise, and ends that come in the middle of a restart (M3, M6; cases 48, 58, 59)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    ExitKind,
    ManualClock,
    State,
    SystemFailed,
)
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.askers import outcome
from tests.conformance.incarnations import (
    AT_ONCE,
    BAD,
    BORN_AGAIN,
    AsyncPhoenix,
    Book,
    Gate,
    Phoenix,
    Ref,
    assert_legal,
    every_phoenix,
    runs,
    slow,
    soon,
)
from tests.conformance.lives import Plain, assert_is_a_life, ended, raises

if TYPE_CHECKING:
    from tests.conftest import Play


class Panic(BaseException):
    """No exception that anybody should catch."""


ERRORS = [ValueError, StopAsyncIteration, asyncio.CancelledError, Panic, GeneratorExit]
every_error = pytest.mark.parametrize("error", ERRORS)
LEAVING = ["pre_restart 1", "snapshot 1", "post_stop 1"]
COMING = ["init 2", "pre_start 2", "restore 2", "post_restart 2", "post_start 2"]


@every_phoenix
@every_error
@pytest.mark.parametrize("hook", LEAVING)
@pytest.mark.config(supervision=AT_ONCE, history=True)
async def test_a_hook_that_raises_while_it_leaves_is_logged_and_the_restart_goes_on(
    system: ActorSystem, kind: Any, hook: str, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:  # case 48, M3, M6
    book = Book(**{hook: raises(error("in a hook"))})
    with caplog.at_level(logging.WARNING, logger="greenroom"):
        probe = TestProbe(system)
        ref = system.spawn(kind, book)
        await probe.watch(ref)
        child = await ref.ask(lambda me: me.ctx.spawn(Plain))
        book.take()
        ref.tell(BAD)
        assert await soon(system, ref.ask("next")) == "next"
        born = [line for line in BORN_AGAIN if line != "restore 2" or hook != "snapshot 1"]
        assert book.take() == [*LEAVING, *born]
        assert not child.is_alive
        assert_legal(ref.history)
        await probe.expect_no()
        await system.shutdown()
    assert any(hook.split()[0] in record.getMessage() for record in caplog.records)


@every_phoenix
@every_error
@pytest.mark.parametrize("hook", COMING)
@pytest.mark.config(history=True)
async def test_a_hook_that_raises_while_it_starts_again_is_a_failed_start_and_is_tried_again(
    system: ActorSystem, clock: ManualClock, kind: Any, hook: str, error: type[BaseException]
) -> None:  # M6, M7: failed starts count as restarts
    cause = error("in a hook")
    book = Book(**{hook: raises(cause)})
    ref = system.spawn(kind, book, supervision=slow(1.0, max_restarts=2, within=100.0))
    await ref.ask("hello")
    ref.tell(BAD)
    ref.tell("queued")
    book.take()
    await clock.advance(1.0)
    gone = [] if hook == "init 2" else ["post_stop 2"]
    assert book.take() == [*LEAVING, *COMING[: COMING.index(hook) + 1], *gone]
    assert ref.state is State.RESTARTING
    assert book.heard == ["hello"]
    await clock.advance(1.0)
    log = book.take()
    # Whatever was kept is gone when its restore has failed; it may be otherwise when another hook has.
    assert [line for line in log if line != "restore 3"] == [
        "init 3",
        "pre_start 3",
        "post_restart 3",
        "post_start 3",
    ]
    assert hook != "restore 2" or "restore 3" not in log
    assert book.heard == ["hello", "queued"]
    ref.tell(BAD)  # the third that counts
    assert (await ended(system, ref)).cause is BAD
    assert_is_a_life(ref.history)


@every_phoenix
@every_error
@pytest.mark.parametrize("hook", ["init 1", "pre_start 1", "post_start 1"])
@pytest.mark.config(supervision=AT_ONCE, history=True)
async def test_a_first_start_that_fails_is_tried_again(
    system: ActorSystem, kind: Any, hook: str, error: type[BaseException]
) -> None:  # M6: was never RUNNING, the supervisor decides
    cause = error("in a hook")
    book = Book(**{hook: raises(cause)})
    ref = system.spawn(kind, book)
    asked = ref.ask("hello")
    with pytest.raises((error, RuntimeError)):
        await ref.started()
    assert await asked == "hello"
    await ref.started()
    assert "pre_restart 1" not in book.log
    assert "snapshot 1" not in book.log
    assert book.log.count("post_stop 1") == (0 if hook == "init 1" else 1)
    assert book.log[-3:] == ["pre_start 2", "post_restart 2", "post_start 2"]
    assert State.RUNNING not in ref.history[: ref.history.index(State.FAILED)]
    assert_legal(ref.history)


@every_phoenix
@pytest.mark.parametrize("hook", ["init", "pre_start", "restore", "post_restart", "post_start"])
@pytest.mark.config(history=True)
async def test_one_that_never_starts_again_ends_at_the_limit_and_is_told_once(
    system: ActorSystem, clock: ManualClock, kind: Any, hook: str
) -> None:
    # case 58, M7
    cause = LookupError("in a hook")
    book = Book()
    probe = TestProbe(system)
    ref = system.spawn(kind, book, name="one", supervision=slow(0.5, max_restarts=3, within=100.0))
    await probe.watch(ref)
    await ref.ask("hello")
    book.acts[hook] = raises(cause)
    ref.tell(BAD)
    asked = ref.ask("queued", timeout=None)
    await clock.advance(10.0)
    if hook == "restore":  # that is not tried twice
        assert await asked == "queued"
        return
    reason = await ended(system, ref)
    assert reason.cause is cause
    assert book.lives == 4
    assert (await probe.expect_terminated(ref)).cause is cause
    await probe.expect_no()
    assert isinstance(await outcome(asked), ActorTerminated)
    with pytest.raises(LookupError):
        await ref.started()
    assert system.actor("/one") is None
    assert system.spawn(Plain, name="one").path == "/one"
    assert_is_a_life(ref.history)


@every_phoenix
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("hook", ["receive", *LEAVING, *COMING])
def test_what_ends_programs_ends_the_system_in_the_middle_of_a_restart(
    play: Play, kind: Any, hook: str, error: type[BaseException]
) -> None:  # decision 015: a failure that stops the system is not restarted
    cause = error("on purpose")
    book = Book(**{hook: raises(cause)})
    refs: list[Ref] = []

    async def program(system: ActorSystem) -> None:
        refs.append(system.spawn(kind, book))
        refs[0].tell(cause if hook == "receive" else BAD)
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program, supervision=AT_ONCE, history=True)
    assert caught.value.__cause__ is cause
    assert play.raised == []
    assert play.system is not None
    assert play.system.report is not None
    assert (play.system.report.terminated, play.system.report.forced) == (1, ())
    assert_ledger_balanced(play.system)
    assert_is_a_life(refs[0].history)


@every_phoenix
@pytest.mark.parametrize("hook", ["pre_restart", "post_stop"])
def test_a_system_that_is_ending_starts_nobody_again(play: Play, kind: Any, hook: str) -> None:
    # decision 015: a shutdown ends a waiting restart
    book = Book(**{hook: lambda me: me.ctx.system.fail(LookupError("of the system"))})

    async def program(system: ActorSystem) -> None:
        system.spawn(kind, book).tell(BAD)
        await system.stopped()

    with pytest.raises(SystemFailed):
        play(program, supervision=AT_ONCE)
    assert book.lives == 1


ENDS = ["stop", "kill", "parent", "shutdown"]
every_end = pytest.mark.parametrize("how", ENDS)
KINDS = {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED}


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.parametrize("hook", LEAVING)
@pytest.mark.config(history=True, stop_timeout=3.0, supervision=AT_ONCE)
async def test_a_hook_of_the_old_instance_that_hangs_does_not_hold_up_its_successor(
    system: ActorSystem, clock: ManualClock, hook: str, stubborn: bool
) -> None:  # M3, M6: a hook never strands an actor
    book = Book()
    gate = Gate(stubborn)
    book.acts[hook] = gate.wait
    ref = system.spawn(AsyncPhoenix, book)
    child = await ref.ask(lambda me: me.ctx.spawn(Plain))
    ref.tell(BAD)
    ref.tell("queued")
    await clock.advance(2.5)
    assert ref.state is State.RESTARTING
    assert book.heard == []
    await clock.advance(10.0)
    assert gate.cancelled >= 1
    assert runs(ref)
    assert book.heard == ["queued"]
    assert book.lives == 2
    assert not child.is_alive
    assert_legal(ref.history)
    gate.opened.set()
    await clock.advance(0.0)
    assert book.heard == ["queued"]


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.config(stop_timeout=3.0, supervision=AT_ONCE)
async def test_a_child_that_does_not_stop_is_forced_and_the_restart_goes_on(
    system: ActorSystem, clock: ManualClock, stubborn: bool
) -> None:  # M5, M6
    book = Book()
    gate = Gate(stubborn)
    ref = system.spawn(Phoenix, book, name="one")
    child = await ref.ask(lambda me: me.ctx.spawn(AsyncPhoenix, Book(), name="deaf"))
    child.tell(gate.wait)
    await clock.advance(0.0)
    ref.tell(BAD)
    ref.tell("queued")
    await clock.advance(2.5)
    assert book.lives == 1
    await clock.advance(10.0)
    assert not child.is_alive
    assert gate.cancelled >= 1
    assert book.heard == ["queued"]
    gate.opened.set()
    await system.shutdown()
    assert system.report is not None
    assert system.report.forced == ("/one/deaf",)


@pytest.mark.parametrize("ends", [False, True], ids=["restart", "stop"])
def test_a_post_stop_that_hangs_is_forced_after_a_hook_that_suspended_too(play: Play, ends: bool) -> None:  # M5, M6
    gate = Gate()
    book = Book(**{"post_stop 1": gate.wait})

    async def program(system: ActorSystem) -> None:
        # Its `pre_stop` and `pre_restart` suspend, and return.
        ref = system.spawn(AsyncPhoenix, book, supervision=AT_ONCE)
        await ref.started()
        if ends:
            ref.stop()
        else:
            ref.restart()
        await gate.entered.wait()
        await clock.advance(10.0)
        gone, cancelled = (not ref.is_alive if ends else book.lives == 2), gate.cancelled
        gate.opened.set()
        assert gone
        assert cancelled == 1

    clock = ManualClock()
    play(program, clock=clock, stop_timeout=2.0)


def test_an_instance_that_never_ran_has_no_pre_restart(play: Play) -> None:  # M6
    gate = Gate()
    book = Book(**{"pre_start 2": gate.wait})

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(AsyncPhoenix, book, supervision=AT_ONCE)
        ref.tell(BAD)
        await gate.entered.wait()
        ref.restart()
        await clock.advance(10.0)
        assert book.lives == 3
        assert "pre_restart 2" not in book.log
        assert "snapshot 2" not in book.log
        assert "post_stop 2" in book.log

    clock = ManualClock()
    play(program, clock=clock, stop_timeout=2.0)


def test_a_hook_is_cancelled_before_it_is_abandoned_though_another_was_before(play: Play) -> None:  # M5, M6
    start, leave = Gate(), Gate()

    async def return_when_cancelled(bird: Any) -> None:
        with suppress(asyncio.CancelledError):
            await start.wait()

    book = Book()
    book.acts = {"pre_start 2": return_when_cancelled, "pre_restart 2": leave.wait}

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(AsyncPhoenix, book, supervision=AT_ONCE)
        await ref.started()
        ref.restart()
        await start.entered.wait()
        ref.fail(BAD)
        await clock.advance(2.0)
        assert start.cancelled == 1
        await leave.entered.wait()
        await clock.advance(1.5)
        assert (book.lives, leave.cancelled) == (2, 0)  # it has as much time as any hook
        await clock.advance(10.0)
        assert (book.lives, leave.cancelled) == (3, 1)

    clock = ManualClock()
    play(program, clock=clock, stop_timeout=2.0)
