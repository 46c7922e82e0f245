"""What a `Supervision` decides: directives, deciders, limits and backoff (M7; cases 27, 30, 31, 40, 42, 44)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorSystem,
    Backoff,
    Behaviors,
    Directive,
    ExitKind,
    ManualClock,
    State,
    Supervision,
    SystemFailed,
)
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.askers import outcome
from tests.conformance.incarnations import (
    AT_ONCE,
    BAD,
    AsyncPhoenix,
    Bird,
    Book,
    Gate,
    Phoenix,
    assert_legal,
    every_phoenix,
    slow,
    turns,
)
from tests.conformance.lives import Plain, PlainAsync, assert_is_a_life, ended, raises

if TYPE_CHECKING:
    from tests.conftest import Play

STOP, RESUME, ESCALATE, RESTART = Directive.STOP, Directive.RESUME, Directive.ESCALATE, Directive.RESTART


@pytest.mark.config(supervision=Supervision())
async def test_by_default_an_actor_is_restarted_three_times_in_a_second_and_then_stopped(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7
    book = Book()
    ref = system.spawn(Bird, book)
    for number in range(1, 4):
        ref.tell(BAD)
        await clock.advance(0.1)
        assert book.lives == number + 1
        assert ref.state is State.RUNNING
    ref.tell(BAD)
    reason = await ended(system, ref)
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, BAD)


@every_phoenix
async def test_the_asker_gets_what_the_handler_raised_and_the_supervision_acts_too(
    system: ActorSystem, kind: Any
) -> None:  # case 27
    for strategy, alive in ((RESTART, True), (RESUME, True), (STOP, False)):
        book = Book()
        ref = system.spawn(kind, book, supervision=Supervision(strategy, backoff=None))
        assert await outcome(ref.ask(BAD)) is BAD
        await system.settle()
        assert ref.is_alive is alive
        assert book.lives == (2 if strategy is RESTART else 1)


@every_phoenix
@pytest.mark.parametrize("how", ["raise", "fail", "behavior"])
@pytest.mark.config(history=True)
async def test_resume_keeps_state_and_mailbox_and_loses_only_the_failed_message(
    system: ActorSystem, clock: ManualClock, kind: Any, how: str
) -> None:  # case 40
    book = Book()
    ref = system.spawn(kind, book, supervision=Supervision(RESUME, max_restarts=0))
    child = await ref.ask(lambda me: me.ctx.spawn(Plain))
    await ref.ask(lambda me: me.ctx.send_after(1.0, me.ctx.self, "tick") and None)
    for turn in range(10):
        if how == "fail":
            ref.fail(BAD)
        else:
            ref.tell(BAD if how == "raise" else lambda _: Behaviors.failed(BAD.with_traceback(None)))
        ref.tell(turn)
        ref.tell(turn + 0.5)
    await clock.advance(0.0)
    assert book.heard == [turn / 2 for turn in range(20)]
    await clock.advance(1.0)
    assert book.heard[-1] == "tick"
    assert book.lives == 1
    assert child.is_alive
    assert book.log == ["init 1", "pre_start 1", "post_start 1"]
    assert set(ref.history) == {State.CREATED, State.STARTING, State.RUNNING, State.FAILED}
    assert_legal(ref.history)
    ledger = assert_ledger_balanced(system, ref)
    assert ledger.failed == (0 if how == "fail" else 10)


async def test_resume_keeps_what_it_became_and_what_it_put_aside(system: ActorSystem) -> None:  # case 40
    ref = system.spawn(Plain, supervision=Supervision(RESUME))
    seen: list[Any] = []
    asides = [True]

    def aside(ctx: Any) -> Any:
        if asides:
            return ctx.stash()
        return seen.append("stashed")

    ref.tell(aside)
    await ref.ask(lambda ctx: ctx.become(lambda ctx, message: message(ctx) if callable(message) else "other"))
    ref.tell(raises(BAD))
    assert await ref.ask("x") == "other"
    asides.clear()
    await ref.ask(lambda ctx: ctx.unstash_all())
    await system.settle()
    assert seen == ["stashed"]


@every_phoenix
@pytest.mark.parametrize("hook", ["init", "pre_start", "post_start"])
@pytest.mark.config(history=True)
async def test_a_failed_start_cannot_be_resumed_and_is_restarted(
    system: ActorSystem, clock: ManualClock, kind: Any, hook: str
) -> None:  # decision 015
    book = Book(**{f"{hook} 1": raises(BAD)})
    ref = system.spawn(kind, book, supervision=Supervision(RESUME, backoff=Backoff(min=1.0)))
    asked = ref.ask("hello")
    await clock.advance(0.5)
    assert book.lives == 1
    await clock.advance(0.5)
    assert await asked == "hello"
    assert book.lives == 2
    ref.tell(BAD)
    assert await ref.ask(lambda me: me.number) == 2
    assert_legal(ref.history)


async def test_a_resumed_actor_that_keeps_failing_in_its_start_trips_the_limit(
    system: ActorSystem,
) -> None:  # decision 015
    book = Book(pre_start=raises(BAD))
    ref = system.spawn(Phoenix, book, supervision=Supervision(RESUME, max_restarts=2, backoff=None))
    assert (await ended(system, ref)).cause is BAD
    assert book.lives == 3


@pytest.mark.parametrize("kind", [Plain, PlainAsync])
async def test_a_strategy_may_choose_by_the_exception(system: ActorSystem, kind: Any) -> None:  # M7
    seen: list[BaseException] = []

    def decide(cause: BaseException) -> Directive:
        seen.append(cause)
        return {ValueError: RESUME, LookupError: RESTART, asyncio.CancelledError: RESUME}.get(type(cause), STOP)

    ref = system.spawn(kind, supervision=Supervision(decide, backoff=None))
    for error in (ValueError("a"), LookupError("b"), asyncio.CancelledError("c"), GeneratorExit("d")):
        ref.tell(raises(error))
        await system.settle()
        assert seen.pop() is error
        assert seen == []
    reason = await ended(system, ref)
    assert reason.kind is ExitKind.PANIC


@pytest.mark.parametrize("said", [raises(LookupError("in the strategy")), lambda _: "restart", lambda _: None])
@pytest.mark.config(history=True)
async def test_a_strategy_that_cannot_decide_strands_nobody(system: ActorSystem, said: Any) -> None:  # M3, M7
    refs: list[Any] = []
    parent = system.spawn(Plain, supervision=Supervision(STOP))
    ref = await parent.ask(lambda ctx: ctx.spawn(Bird, Book(), supervision=Supervision(said)))
    refs.extend((parent, ref))
    assert await outcome(ref.ask(BAD)) is BAD
    await ended(system, ref)
    await system.settle()
    for one in refs:
        assert_legal(one.history)
    await system.shutdown()
    assert not refs[1].is_alive


def test_a_strategy_that_raises_at_the_top_ends_nothing_silently(play: Play) -> None:  # M7: escalation to the top
    async def program(system: ActorSystem) -> None:
        system.spawn(Bird, Book(), supervision=Supervision(raises(LookupError("in the strategy")))).tell(BAD)
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is BAD
    assert any("strategy" in note for note in BAD.__notes__)


async def test_while_one_waits_for_its_backoff_its_kin_is_served(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 44
    parent = system.spawn(Plain)
    one, two = (system.spawn(Bird, Book(), parent=parent, supervision=slow(9.0)) for _ in range(2))
    one.tell(BAD)
    one.tell("queued")
    await clock.advance(1.0)
    assert one.state is State.RESTARTING
    assert await two.ask("hello") == "hello"
    assert await parent.ask("hello") == "hello"
    assert await parent.ask(lambda ctx: ctx.children) == [one, two]


@pytest.mark.config(supervision=Supervision(STOP))
async def test_children_take_their_parents_supervision_unless_they_have_their_own(
    system: ActorSystem,
) -> None:  # M4, M7
    parent = system.spawn(Plain, supervision=Supervision(RESUME))
    heir = await parent.ask(lambda ctx: ctx.spawn(Plain))
    grandchild = await heir.ask(lambda ctx: ctx.spawn(Bird, Book()))
    own = await parent.ask(lambda ctx: ctx.spawn(Plain, supervision=Supervision(STOP)))
    below = await own.ask(lambda ctx: ctx.spawn(Plain))
    behaves = system.spawn(
        Behaviors.supervise(Behaviors.receive(lambda ctx, message: message(ctx)), Supervision(RESUME))
    )
    for ref in (heir, grandchild, below, own, behaves):
        ref.tell(raises(BAD))
    await system.settle()
    assert [ref.is_alive for ref in (heir, grandchild, below, own, behaves)] == [True, True, False, False, True]


async def test_a_childs_message_is_handled_before_the_notice_of_its_death(system: ActorSystem) -> None:  # case 6
    heard: list[Any] = []

    class Parent(Plain):
        def on_terminated(self, ref: Any, cause: BaseException | None) -> None:
            heard.append("terminated")

        def on_child_terminated(self, ref: Any, cause: BaseException | None) -> None:
            heard.append("child terminated")

    for supervision in (Supervision(STOP), Supervision(max_restarts=1, backoff=None)):
        heard.clear()
        parent = system.spawn(Parent)
        child = await parent.ask(lambda ctx, s=supervision: ctx.spawn(AsyncPhoenix, Book(), supervision=s))
        await parent.ask(lambda ctx, child=child: ctx.watch(child))

        def crash(me: Any, parent: Any = parent) -> None:
            parent.tell(lambda _: heard.append("m"))
            raise BAD.with_traceback(None)

        child.tell(crash)
        child.tell(crash)
        await ended(system, child)
        await system.settle()
        assert heard == ["m"] * (1 if supervision.strategy is STOP else 2) + ["terminated", "child terminated"]


@pytest.mark.config(history=True)
async def test_a_stop_of_the_parent_while_a_child_decides_takes_both(
    system: ActorSystem, clock: ManualClock
) -> None:  # M5, M7
    probe = TestProbe(system)
    parent = system.spawn(Plain)
    gate = Gate()
    child = await parent.ask(lambda ctx: ctx.spawn(AsyncPhoenix, Book(), supervision=AT_ONCE))
    await probe.watch(child)

    async def wait_and_fail(me: Any) -> None:
        await gate.wait()
        raise BAD.with_traceback(None)

    child.tell(wait_and_fail)
    await gate.entered.wait()
    parent.stop()
    await turns()
    gate.opened.set()
    await ended(system, parent)
    await probe.expect_terminated(child)
    assert_is_a_life(child.history)
    assert State.RESTARTING not in child.history
