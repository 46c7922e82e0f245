"""`Supervision` of any actor: directives, limits, backoff (cases 30, 31, 42, M7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    ActorSystem,
    Backoff,
    Behaviors,
    Directive,
    ExitKind,
    ManualClock,
    State,
    Supervision,
    SystemConfig,
    SystemFailed,
)
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import (
    AT_ONCE,
    BAD,
    AsyncPhoenix,
    Bird,
    Book,
    Gate,
    Phoenix,
    Plain,
    PlainAsync,
    assert_is_a_life,
    assert_legal,
    ended,
    every_phoenix,
    raises,
    slow,
)
from tests.conformance.sending import outcome
from tests.conftest import Play
from tests.gates import turns

STOP, RESUME, ESCALATE, RESTART = Directive.STOP, Directive.RESUME, Directive.ESCALATE, Directive.RESTART


@pytest.mark.config(supervision=Supervision())
async def test_by_default_an_actor_is_restarted_three_times_in_a_second_and_then_stopped(
    system: ActorSystem, clock: ManualClock
) -> None:  # cases 27, 40, 44, M7
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
) -> None:  # cases 27, 40, 44
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
) -> None:  # cases 27, 40, 44
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


async def test_resume_keeps_what_it_became_and_what_it_put_aside(system: ActorSystem) -> None:  # cases 27, 40, 44
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
) -> None:  # cases 27, 40, 44: decision 015
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


async def test_a_resumed_actor_that_keeps_failing_in_its_start_trips_the_limit(system: ActorSystem) -> None:
    # cases 27, 40, 44: decision 015
    book = Book(pre_start=raises(BAD))
    ref = system.spawn(Phoenix, book, supervision=Supervision(RESUME, max_restarts=2, backoff=None))
    assert (await ended(system, ref)).cause is BAD
    assert book.lives == 3


@pytest.mark.parametrize("kind", [Plain, PlainAsync])
async def test_a_strategy_may_choose_by_the_exception(system: ActorSystem, kind: Any) -> None:  # cases 27, 40, 44, M7
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
async def test_a_strategy_that_cannot_decide_strands_nobody(system: ActorSystem, said: Any) -> None:
    # cases 27, 40, 44, M3, M7
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


def test_a_strategy_that_raises_at_the_top_ends_nothing_silently(play: Play) -> None:
    # cases 27, 40, 44, M7: escalation to the top
    async def program(system: ActorSystem) -> None:
        system.spawn(Bird, Book(), supervision=Supervision(raises(LookupError("in the strategy")))).tell(BAD)
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is BAD
    assert any("strategy" in note for note in BAD.__notes__)


async def test_while_one_waits_for_its_backoff_its_kin_is_served(system: ActorSystem, clock: ManualClock) -> None:
    # cases 27, 40, 44
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
async def test_children_take_their_parents_supervision_unless_they_have_their_own(system: ActorSystem) -> None:
    # cases 27, 40, 44, M4, M7
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


async def test_a_childs_message_is_handled_before_the_notice_of_its_death(system: ActorSystem) -> None:
    # cases 6, 27, 40, 44
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
async def test_a_stop_of_the_parent_while_a_child_decides_takes_both(system: ActorSystem, clock: ManualClock) -> None:
    # cases 27, 40, 44, M5, M7
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


async def test_three_in_five_seconds_trip_at_the_fourth(system: ActorSystem, clock: ManualClock) -> None:  # case 30
    book, slower = Book(), Book()
    limited = Supervision(max_restarts=3, within=5.0, backoff=None)
    ref = system.spawn(Bird, book, supervision=limited)
    other = system.spawn(Bird, slower, supervision=limited)
    for second in range(4):
        assert ref.is_alive, second
        ref.tell(BAD)
        await clock.advance(1.0)
    assert not ref.is_alive
    assert book.lives == 4
    for _ in range(12):
        other.tell(BAD)
        await clock.advance(6.0)
    assert slower.lives == 13
    assert other.state is State.RUNNING


@pytest.mark.parametrize(("gap", "survives"), [(5.0, False), (5.0625, True)])
async def test_the_window_slides_and_includes_both_its_ends(
    system: ActorSystem, clock: ManualClock, gap: float, survives: bool
) -> None:  # case 30
    ref = system.spawn(Bird, Book(), supervision=Supervision(max_restarts=3, within=5.0, backoff=None))
    for pause in (1.0, 1.0, gap - 2.0, 0.0):
        ref.tell(BAD)
        await clock.advance(pause)
    assert ref.is_alive is survives


async def test_a_limit_of_nothing_trips_at_the_first_failure(system: ActorSystem, clock: ManualClock) -> None:
    # case 31
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=Supervision(max_restarts=0))
    await clock.advance(100.0)
    ref.tell(BAD)
    assert (await ended(system, ref)).cause is BAD
    assert book.log == ["init 1", "pre_start 1", "post_start 1", "post_stop 1"]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(0, 3), st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_the_limit_is_that_of_a_sliding_window(gaps: list[int], limit: int, within: int) -> None:  # case 30, M7
    clock = ManualClock()
    times: list[int] = []
    expected = 0
    for moment in (sum(gaps[: number + 1]) for number in range(len(gaps))):
        times.append(moment)
        if len([one for one in times if moment - one <= within]) > limit:
            break
        expected += 1

    async def main() -> None:
        async with asyncio.timeout(120.0), ActorSystem(config=SystemConfig(clock=clock)) as system:
            book = Book()
            ref = system.spawn(
                Bird, book, supervision=Supervision(max_restarts=limit, within=float(within), backoff=None)
            )
            for gap in gaps:
                await clock.advance(float(gap))
                ref.tell(BAD)
            await clock.advance(0.0)
            assert book.lives == expected + 1
            assert ref.is_alive is (expected == len(gaps))

    asyncio.run(main())


async def test_without_a_limit_an_actor_is_restarted_for_ever(system: ActorSystem) -> None:  # M7: max_restarts=None
    book = Book()
    ref = system.spawn(Bird, book, supervision=AT_ONCE)
    for _ in range(200):
        ref.tell(BAD)
    assert await ref.ask(lambda me: me.number) == 201


def moments_of(book: Book) -> list[float]:
    """When each incarnation began to run."""
    return [at for name, at in book.heard if name == "started"]


async def fail_again_and_again(clock: ManualClock, count: int, backoff: Backoff, **options: Any) -> list[float]:
    """The delays of `count` restarts in a row of one actor, as the clock shows them."""
    delays: list[float] = []
    book = Book()
    book.acts["post_start"] = lambda me: me.book.heard.append(("started", me.ctx.now()))
    config = SystemConfig(clock=clock, **options)
    async with asyncio.timeout(120.0), ActorSystem(config=config) as system:
        ref = system.spawn(Phoenix, book, supervision=Supervision(max_restarts=None, within=1.0, backoff=backoff))
        for _ in range(count):
            failed_at = clock.now()
            ref.tell(BAD)
            await clock.advance(0.0)
            while ref.state is not State.RUNNING:
                clock.step(clock.now() + 5.0)
                await clock.advance(0.0)
            delays.append(moments_of(book)[-1] - failed_at)
    return delays


def test_the_backoff_doubles_from_ten_milliseconds_to_a_second(play: Play) -> None:  # case 42
    delays: list[float] = []

    async def main() -> None:
        delays.extend(await fail_again_and_again(ManualClock(), 10, Backoff(min=0.01, max=1.0, factor=2.0)))

    play.bare(main)
    assert delays == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("jitter", [0.1, 0.5, 1.0])
def test_jitter_is_within_its_share_and_from_the_systems_random(play: Play, jitter: float) -> None:  # case 42
    series: list[list[float]] = []

    async def main() -> None:
        series.extend(
            [
                await fail_again_and_again(ManualClock(), 20, Backoff(min=1.0, max=1.0, jitter=jitter), seed=seed)
                for seed in (7, 7, 8)
            ]
        )

    play.bare(main)
    assert series[0] == series[1] != series[2]
    for delay in series[0]:
        assert 1.0 - jitter <= delay + 1e-9
        assert delay - 1e-9 <= 1.0 + jitter
    assert len(set(series[0])) > 10
    assert min(series[0]) < 1.0 < max(series[0])


@pytest.mark.parametrize(("quiet", "again"), [(0.5, False), (1.0, True), (4.0, True)])
async def test_the_backoff_begins_anew_after_a_quiet_window(
    system: ActorSystem, clock: ManualClock, quiet: float, again: bool
) -> None:  # case 42
    book = Book()
    supervision = Supervision(max_restarts=None, within=1.0, backoff=Backoff(min=0.125, max=8.0))
    ref = system.spawn(Bird, book, supervision=supervision)
    ref.tell(BAD)
    await clock.advance(0.125)
    ref.tell(BAD)
    await clock.advance(0.25)
    assert book.lives == 3
    await clock.advance(quiet)
    ref.tell(BAD)
    await clock.advance(0.125)
    assert (book.lives == 4) is again
    await clock.advance(0.375)
    assert book.lives == 4


async def test_a_quiet_window_is_as_long_as_the_last_delay(system: ActorSystem, clock: ManualClock) -> None:
    # M7: max(within, last delay)
    book = Book()
    supervision = Supervision(max_restarts=None, within=1.0, backoff=Backoff(min=4.0, max=64.0))
    ref = system.spawn(Bird, book, supervision=supervision)
    ref.tell(BAD)
    await clock.advance(4.0 + 3.0)  # it ran for three seconds: less than its delay
    ref.tell(BAD)
    await clock.advance(7.0)
    assert book.lives == 2
    await clock.advance(1.0 + 8.0)  # and now for eight
    assert book.lives == 3
    ref.tell(BAD)
    await clock.advance(4.0)
    assert book.lives == 4
