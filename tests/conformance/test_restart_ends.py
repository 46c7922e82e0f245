"""Ends and failures that come in the middle of a restart (M3, M5, M6; cases 57, 58, 59; decision 015)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    Context,
    Directive,
    ExitKind,
    ManualClock,
    State,
    Supervision,
)
from greenroom.testing import TestProbe
from tests.conformance.askers import outcome
from tests.conformance.incarnations import (
    AT_ONCE,
    BAD,
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
    turns,
)
from tests.conformance.lives import Plain, assert_is_a_life, ended, raises

if TYPE_CHECKING:
    from tests.conftest import Play


LEAVING = ["pre_restart 1", "snapshot 1", "post_stop 1"]
COMING = ["init 2", "pre_start 2", "restore 2", "post_restart 2", "post_start 2"]
ENDS = ["stop", "kill", "parent", "shutdown"]
every_end = pytest.mark.parametrize("how", ENDS)
KINDS = {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED}


async def end(system: ActorSystem, ref: Ref, how: str) -> asyncio.Future[Any]:
    if how == "parent":
        assert ref.parent is not None
        ref.parent.stop()
        return asyncio.ensure_future(ref.parent.terminated())
    if how == "shutdown":
        task = asyncio.ensure_future(system.shutdown(drain=False))
        await turns(3)
        return task
    getattr(ref, how)()
    return asyncio.ensure_future(ref.terminated())


@every_phoenix
@every_end
@pytest.mark.config(history=True)
async def test_an_end_during_the_backoff_ends_the_waiting_restart(
    system: ActorSystem, clock: ManualClock, kind: Any, how: str
) -> None:
    # decision 015, case 59
    book = Book()
    probe = TestProbe(system)
    parent = system.spawn(Plain)
    ref = system.spawn(kind, book, parent=parent, supervision=slow(60.0))
    await probe.watch(ref)
    ref.tell(BAD)
    asked = ref.ask("queued", timeout=None)
    await clock.advance(1.0)
    book.take()
    done = await end(system, ref, how)
    if how == "shutdown":
        await done  # at once: nothing has to be waited for
    reason = await ended(system, ref)
    if how in KINDS:
        assert reason.kind is KINDS[how]
    assert book.take() == []  # the old instance is gone already, and has had its post_stop
    assert isinstance(await outcome(asked), ActorTerminated)
    if how != "shutdown":
        await done
        await probe.expect_terminated(ref)
        await clock.advance(100.0)
        await probe.expect_no()
    assert book.lives == 1
    assert_is_a_life(ref.history, killed=how == "kill")
    await system.shutdown()
    assert system.report is not None
    assert system.report.forced == ()


@every_end
@pytest.mark.parametrize("hook", [*LEAVING, *COMING[1:]])
@pytest.mark.config(history=True)
async def test_an_end_while_a_hook_of_a_restart_is_suspended_ends_the_actor(
    system: ActorSystem, clock: ManualClock, hook: str, how: str
) -> None:
    # case 59: it ends, once
    book = Book()
    probe = TestProbe(system)
    gate = Gate()
    book.acts[hook] = gate.wait
    parent = system.spawn(Plain)
    ref = system.spawn(AsyncPhoenix, book, parent=parent, supervision=AT_ONCE)
    await probe.watch(ref)
    ref.tell(BAD)
    asked = ref.ask("queued", timeout=None)
    await clock.advance(0.0)
    assert gate.entered.is_set()
    done = await end(system, ref, how)
    await clock.advance(0.5)
    gate.opened.set()
    await clock.advance(0.0)
    reason = await ended(system, ref)
    await done
    if how in KINDS:
        assert reason.kind is KINDS[how]
    assert isinstance(await outcome(asked), ActorTerminated)
    assert book.lives == (2 if hook in COMING else 1)
    number = book.lives
    assert [line for line in book.log if line.startswith("post_stop")] == [
        f"post_stop {one}" for one in range(1, number + 1)
    ]
    if how != "shutdown":
        await probe.expect_terminated(ref)
        await probe.expect_no()
    assert_is_a_life(ref.history, killed=how == "kill")


@pytest.mark.parametrize(
    "asked",
    [["restart"], ["stop"], ["restart", "stop"], ["stop", "restart"], ["restart", "restart", "stop"]],
    ids=" ".join,
)
@pytest.mark.parametrize("hook", LEAVING)
@pytest.mark.config(history=True)
async def test_a_kill_overtakes_what_was_asked_for_before_it(system: ActorSystem, hook: str, asked: list[str]) -> None:
    # case 57, M2
    book = Book()
    gate = Gate()
    book.acts[hook] = gate.wait
    ref = system.spawn(AsyncPhoenix, book)
    await ref.started()
    ref.restart()
    await gate.entered.wait()
    for order in asked:
        getattr(ref, order)()
    ref.kill()
    assert (await ended(system, ref)).kind is ExitKind.KILLED
    assert book.lives == 1
    assert "pre_stop 1" not in book.log
    assert book.log.count("post_stop 1") == 1
    assert_legal(ref.history, killed=True)


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@every_end
@pytest.mark.parametrize("hook", [*LEAVING, *COMING[1:]])
@pytest.mark.config(history=True, stop_timeout=3.0)
async def test_an_end_forces_a_hook_of_a_restart_that_hangs(
    system: ActorSystem, clock: ManualClock, hook: str, how: str, stubborn: bool
) -> None:
    # case 57, case 59
    book = Book()
    gate = Gate(stubborn)
    book.acts[hook] = gate.wait
    parent = system.spawn(Plain)
    ref = system.spawn(AsyncPhoenix, book, parent=parent, supervision=AT_ONCE)
    ref.tell(BAD)
    await clock.advance(0.0)
    done = await end(system, ref, how)
    await clock.advance(10.0)
    reason = await ended(system, ref)
    await done
    if how == "kill":
        assert reason.kind is ExitKind.KILLED
    assert gate.cancelled >= 1
    assert_is_a_life(ref.history, killed=True)
    gate.opened.set()


@every_phoenix
@pytest.mark.config(supervision=AT_ONCE)
async def test_a_stop_that_is_asked_for_by_the_message_that_fails_wins(
    system: ActorSystem, kind: Any
) -> None:  # decision 015
    book = Book()
    ref = system.spawn(kind, book)

    def stop_and_fail(me: Any) -> None:
        me.ctx.stop()
        raise BAD.with_traceback(None)

    ref.tell(stop_and_fail)
    await ended(system, ref)
    assert book.lives == 1
    assert book.log.count("post_stop 1") == 1
    assert "pre_restart 1" not in book.log


@every_phoenix
@pytest.mark.parametrize("hook", ["pre_stop", "post_stop"])
@pytest.mark.config(supervision=AT_ONCE)
async def test_a_hook_that_raises_at_the_end_leads_to_no_restart(
    system: ActorSystem, kind: Any, hook: str
) -> None:  # case 58
    book = Book(**{hook: raises(BAD)})
    probe = TestProbe(system)
    ref = system.spawn(kind, book)
    await probe.watch(ref)
    ref.stop()
    assert (await ended(system, ref)).kind is ExitKind.NORMAL
    await probe.expect_terminated(ref)
    assert book.lives == 1


@pytest.mark.parametrize("kind", [Phoenix, AsyncPhoenix])
def test_a_shutdown_asked_for_by_a_hook_of_a_restart_ends_the_system(play: Play, kind: Any) -> None:  # case 59
    for hook in (*LEAVING, *COMING[1:]):
        book = Book()

        async def program(system: ActorSystem, hook: str = hook, book: Book = book) -> None:
            def shut_down(me: Any) -> None:
                ctx: Context = me.ctx
                ctx.system.stop()
                ctx.system.stop()

            book.acts[hook] = shut_down
            ref = system.spawn(kind, book)
            ref.tell(BAD)
            ref.tell("queued")
            await system.stopped()
            assert_is_a_life(ref.history)

        system = play(program, supervision=AT_ONCE, history=True)
        assert system.report is not None
        assert (system.report.started, system.report.terminated, system.report.forced) == (1, 1, ())


@pytest.mark.parametrize("second", list(Directive))
@pytest.mark.config(history=True)
async def test_a_failure_asked_for_while_it_waits_neither_shortens_the_backoff_nor_makes_a_zombie(
    system: ActorSystem, clock: ManualClock, second: Directive
) -> None:  # decisions 009 and 014
    book = Book()

    def decide(cause: BaseException) -> Directive:
        return Directive.RESTART if cause is BAD else second

    parent = system.spawn(Plain, supervision=Supervision(Directive.RESUME))
    waiting = slow(1.0, strategy=decide, max_restarts=None)
    ref = system.spawn(Phoenix, book, parent=parent, supervision=waiting)
    ref.tell(BAD)
    await clock.advance(0.5)
    assert ref.state is State.RESTARTING
    ref.fail(LookupError("again"))
    ref.tell("queued")
    await clock.advance(0.25)
    assert book.lives == 1
    assert book.heard == []
    await clock.advance(1.0)
    assert_legal(ref.history)
    assert book.log.count("post_stop 1") == 1
    if second is not Directive.STOP:
        assert runs(ref)
        assert book.heard == ["queued"]
        assert book.lives == 2


@pytest.mark.config(history=True)
async def test_failures_asked_for_in_one_go_are_one_restart(system: ActorSystem) -> None:  # decision 009, M7
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=Supervision(max_restarts=None, backoff=None))
    await ref.ask("hello")
    for number in range(3):
        ref.fail(LookupError(f"number {number}"))
    assert await soon(system, ref.ask("next")) == "next"
    assert 2 <= book.lives <= 4
    assert_legal(ref.history)
    lines = [line for line in book.log if line.startswith("post_stop")]
    assert lines == [f"post_stop {number}" for number in range(1, book.lives)]
