"""Failures, orders and restarts of several actors that meet in one moment (M5, M6, M7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    Backoff,
    ChildSpec,
    CountChildren,
    Directive,
    Down,
    ManualClock,
    Restart,
    Scope,
    State,
    Supervision,
    Supervisor,
    SystemConfig,
)
from greenroom.errors import HandlerBroken
from greenroom.exits import KILLED
from tests.conformance.askers import outcome
from tests.conformance.incarnations import (
    BAD,
    AsyncPhoenix,
    Book,
    Gate,
    Phoenix,
    Ref,
    assert_legal,
    runs,
    soon,
    turns,
)
from tests.conformance.lives import ended
from tests.supervision.staff import by_name, child_of, supervise

ESCALATE = Supervision(Directive.ESCALATE)
RESUME = Supervision(Directive.RESUME)
STOP_TIMEOUT = 3.0


# -- children that have escalated


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.config(history=True)
async def test_a_child_that_is_ending_is_not_resumed_with_its_parent(
    system: ActorSystem, how: str
) -> None:  # M1, M5, M8, 58
    parent: Ref = system.spawn(AsyncPhoenix, Book(), supervision=RESUME)
    child: Ref = await parent.ask(lambda me: me.ctx.spawn(Phoenix, Book(), supervision=ESCALATE))
    slow = Gate()
    await child.ask(lambda me: me.ctx.spawn(AsyncPhoenix, Book(post_stop=slow.wait)))
    watching = Book()
    watcher: Ref = system.spawn(Phoenix, watching)
    mref = await watcher.ask(lambda me: (me.ctx.watch(child), me.ctx.monitor(child))[1])
    busy = Gate()
    parent.tell(busy.wait)
    await busy.entered.wait()
    child.tell(BAD)
    await turns()
    getattr(child, how)()
    if how == "stop":
        await slow.entered.wait()
    busy.opened.set()
    await turns(20)
    assert runs(parent)
    assert not runs(child)
    slow.opened.set()
    reason = await ended(system, child)
    assert reason.abnormal
    assert_legal(child.history, killed=how == "kill")
    await system.settle()
    notice, down = watching.heard
    assert notice == ("terminated", child)
    assert isinstance(down, Down)
    assert (down.mref, down.reason) == (mref, reason)


async def test_a_supervisor_that_gave_up_is_restarted_when_its_parent_is_resumed(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7, J10, 37
    parent: Ref = system.spawn(Phoenix, Book(), supervision=RESUME)
    spec = Supervisor.spec([ChildSpec(name, Phoenix, (Book(),)) for name in "ab"], intensity=0)
    supervision = Supervision(Directive.ESCALATE, backoff=Backoff(min=1.0))
    supervisor: Ref = await parent.ask(lambda me: me.ctx.spawn(Supervisor, spec, supervision=supervision))
    (await child_of(supervisor, "a")).tell(BAD)
    await system.settle()
    assert (parent.state, supervisor.state) == (State.RUNNING, State.RESTARTING)
    await clock.advance(1.0)
    assert (await soon(system, supervisor.ask(CountChildren(), timeout=None))).active == 2


@pytest.mark.config(history=True, stop_timeout=STOP_TIMEOUT)
async def test_a_start_that_was_cancelled_for_an_escalation_fails_though_that_is_settled(
    system: ActorSystem, clock: ManualClock
) -> None:  # M1, M3, 54
    kids: list[Ref] = []
    gate = Gate()

    async def start(me: Any) -> None:
        kids.append(me.ctx.spawn(Phoenix, Book(pre_start=fail), supervision=ESCALATE))
        await gate.wait()

    def fail(_: Any) -> None:
        raise BAD.with_traceback(None)

    book = Book(**{"pre_start 1": start})
    parent: Ref = system.spawn(AsyncPhoenix, book, supervision=Supervision(backoff=None))
    asked = parent.ask("early", timeout=None)
    await gate.entered.wait()
    await turns()
    kids[0].stop()
    await clock.advance(STOP_TIMEOUT)
    assert await soon(system, asked) == "early"
    assert (parent.state, book.lives) == (State.RUNNING, 2)
    assert_legal(parent.history)


# -- groups


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_group_goes_on_when_one_that_hangs_in_its_start_is_restarted(
    system: ActorSystem, clock: ManualClock
) -> None:  # M6, M7, 34
    gate = Gate()
    books = [Book(**{"pre_start 2": gate.wait}), Book(), Book()]
    all_of_them = Supervision(scope=Scope.ONE_FOR_ALL, backoff=None)
    refs: list[Ref] = [system.spawn(AsyncPhoenix, book, supervision=all_of_them) for book in books]
    await refs[2].started()
    refs[1].tell(BAD)
    await gate.entered.wait()
    refs[0].restart()
    await clock.advance(STOP_TIMEOUT)
    await soon(system, asyncio.gather(*(ref.ask("there", timeout=None) for ref in refs)))
    assert [book.lives for book in books] == [3, 2, 2]


# -- orders beside a failure, under a supervisor

ORDERS = [
    ("stop",),
    ("stop", "stop"),
    ("restart",),
    ("restart", "restart"),
    ("restart", "restart", "restart"),
    ("restart", "stop"),
    ("stop", "restart"),
    ("stop", "restart", "stop"),
]


@pytest.mark.parametrize("restart", [Restart.TRANSIENT, Restart.PERMANENT])
@pytest.mark.parametrize("orders", ORDERS, ids="-".join)
async def test_a_failure_comes_before_the_orders_that_wait_behind_it(
    system: ActorSystem, orders: tuple[str, ...], restart: Restart
) -> None:  # M6, 35, 45
    book = Book()
    supervisor = await supervise(system, [ChildSpec("a", AsyncPhoenix, (book,), restart=restart)])
    child = await child_of(supervisor, "a")
    gate = Gate()

    async def fail(_: Any) -> None:
        await gate.wait()
        raise BAD.with_traceback(None)

    child.tell(fail)
    child.tell("queued")
    await gate.entered.wait()
    for order in orders:
        getattr(child, order)()
    gate.opened.set()
    assert await soon(system, child.ask("there", timeout=None)) == "there"
    await system.settle()
    assert book.heard == ["queued", "there"]
    assert book.actors[1].state == "state of 1"
    assert [info.state for info in (await by_name(supervisor)).values()] == [State.RUNNING]


# -- what askers are told

SPARED = [("stop", Restart.PERMANENT), ("kill", Restart.PERMANENT), ("kill", Restart.TRANSIENT)]
ENDED = [("stop", Restart.TRANSIENT), ("stop", Restart.TEMPORARY), ("kill", Restart.TEMPORARY)]


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.parametrize(("order", "restart"), [*SPARED, *ENDED])
async def test_who_asked_a_supervisors_child_is_told_of_an_end_only_if_it_is_one(
    system: ActorSystem, clock: ManualClock, order: str, restart: Restart, stubborn: bool
) -> None:  # M6, 24, 35
    spec = ChildSpec("a", AsyncPhoenix, (Book(),), restart=restart, shutdown=STOP_TIMEOUT)
    child = await child_of(await supervise(system, [spec]), "a")
    gate = Gate(stubborn)
    asked = child.ask(gate.wait, timeout=None)
    await gate.entered.wait()
    getattr(child, order)()
    await clock.advance(STOP_TIMEOUT + 2.0)
    error = await soon(system, outcome(asked))
    gate.opened.set()
    await system.settle()
    comes_back = (order, restart) in SPARED or restart is Restart.TRANSIENT  # one that was forced was killed
    assert isinstance(error, HandlerBroken if comes_back else ActorTerminated), error
    assert child.is_alive is comes_back


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_who_asked_one_that_missed_its_stop_is_told_the_reason_of_its_end(
    system: ActorSystem, clock: ManualClock
) -> None:  # 24, 57
    ref: Ref = system.spawn(AsyncPhoenix, Book())
    gate = Gate()
    asked = ref.ask(gate.wait, timeout=None)
    await gate.entered.wait()
    ref.stop()
    await clock.advance(STOP_TIMEOUT)
    error: Any = await soon(system, outcome(asked))
    assert isinstance(error, ActorTerminated)
    assert error.reason == await ended(system, ref) == KILLED


async def test_who_asked_by_way_of_another_system_is_told_what_that_one_knows(
    system: ActorSystem, clock: ManualClock
) -> None:  # 24, 26
    config = SystemConfig(clock=clock, stop_timeout=STOP_TIMEOUT)
    async with ActorSystem("other", config=config) as other:
        ref: Ref = other.spawn(AsyncPhoenix, Book())
        gate = Gate()
        clerk: Ref = system.spawn(lambda ctx, message: ctx.forward(ref))
        asked = clerk.ask(gate.wait, timeout=None)
        await gate.entered.wait()
        ref.stop()
        await clock.advance(STOP_TIMEOUT)
        error = await soon(system, outcome(asked))
        assert isinstance(error, ActorTerminated), error


# -- snapshots


@pytest.mark.parametrize("hook", ["post_restart", "post_start"])
async def test_a_snapshot_that_was_restored_outlives_a_start_that_fails_after_it(
    system: ActorSystem, hook: str
) -> None:  # M6
    def fail(_: Any) -> None:
        raise BAD.with_traceback(None)

    book = Book(**{f"{hook} 2": fail})
    ref: Ref = system.spawn(Phoenix, book, supervision=Supervision(backoff=None))
    ref.tell(BAD)
    await system.settle()
    assert runs(ref)
    assert [actor.state for actor in book.actors[1:]] == ["state of 1", "state of 1"]
