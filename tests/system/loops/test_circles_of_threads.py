"""Circles of asks across loops by actors that have threads of their own: pinned ones, and those of a pool.

Such an actor waits on its own thread, while its loop goes on. All else is as in `test_circles`.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, AskDeadlock, AskTimeout, Context, ManualClock
from greenroom.actor.messaging.question import Question, Walk
from tests.conformance.askers import Ref, outcome, pass_time, until
from tests.conftest import Play
from tests.gates import Event, turns
from tests.system.loops.test_circles import PATIENCE, ROUNDS, Walker, assert_one_is_refused, at_once

ON_THREADS = [
    ("pinned", "pinned"),
    ("parallel", "parallel"),
    ("pinned", "parallel"),
    ("pinned", "pinned", "pinned"),
    ("parallel", "parallel", "parallel"),
    ("parallel", "pinned", "parallel"),
]
MIXED = [
    ("spread", "pinned"),
    ("spread", "parallel"),
    ("spread", "pinned", "parallel"),
    ("pinned", "spread", "spread"),
    # The first and the last are on the same loop.
    ("pinned", "pinned", "pinned", "pinned"),
    ("parallel", "parallel", "spread", "parallel"),
]


@pytest.fixture
def play() -> Play:
    return Play("spread")


def outcome_sync(ref: Ref, message: Any, timeout: float | None = None) -> Any:
    """What came of it: the value, or the exception."""
    try:
        return ref.ask_sync(message, timeout=timeout)
    except Exception as exc:
        return exc


class BlockingWalker(Actor[Any, Any]):
    """As `Walker`, but it blocks its thread."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self.barrier = barrier

    def receive(self, message: tuple[Ref, ...]) -> Any:
        if not message:
            return "the end"
        self.barrier.wait(PATIENCE)
        return outcome_sync(message[0], message[1:])


def on_each_loop(system: ActorSystem, kinds: tuple[str, ...], together: int) -> list[Ref]:
    """Walkers of these kinds, each a child of an actor that lives on another loop; so many start at once."""
    barrier = threading.Barrier(together)
    walkers: list[Ref] = []
    for kind in kinds:
        parent = system.spawn(Walker, barrier)
        walker = BlockingWalker if kind == "parallel" else Walker
        walkers.append(system.spawn(walker, barrier, parent=parent, dispatcher=kind))
    assert len({one._cell.loop for one in walkers}) == min(len(kinds), 3)
    return walkers


@pytest.mark.parametrize("kinds", [*ON_THREADS, *MIXED], ids="-".join)
async def test_of_those_who_ask_one_another_at_once_one_is_refused(
    system: ActorSystem, kinds: tuple[str, ...]
) -> None:  # case 25
    walkers = on_each_loop(system, kinds, len(kinds))
    for _ in range(ROUNDS):
        assert_one_is_refused(await at_once(walkers), walkers)
    await system.settle()
    assert system.ledger().late_replies == ROUNDS  # of those that were refused, and handled later


@pytest.mark.parametrize("kinds", ON_THREADS, ids="-".join)
async def test_of_those_who_ask_one_another_at_once_one_is_refused_though_each_finds_the_circle(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...]
) -> None:  # case 25
    wait, found = threading.Barrier(len(kinds)), threading.Barrier(len(kinds))
    follow, close = Walk.follow, Walk._close

    def follow_together(walk: Walk, question: Question) -> Any:
        if not walk._followed:
            wait.wait(PATIENCE)  # all of them do when the first is looked at
        return follow(walk, question)

    def close_together(walk: Walk) -> None:
        found.wait(PATIENCE)  # nobody has been refused yet when the last finds it
        close(walk)

    monkeypatch.setattr(Walk, "follow", follow_together)
    monkeypatch.setattr(Walk, "_close", close_together)
    walkers = on_each_loop(system, kinds, len(kinds))
    for _ in range(ROUNDS):
        assert_one_is_refused(await at_once(walkers), walkers)


@pytest.mark.parametrize("kinds", [*ON_THREADS, *MIXED], ids="-".join)
async def test_who_closes_the_circle_is_refused_and_the_others_hear_of_it(
    system: ActorSystem, kinds: tuple[str, ...]
) -> None:  # case 25
    walkers = on_each_loop(system, kinds, 1)
    for _ in range(ROUNDS):
        error = await walkers[0].ask((*walkers[1:], walkers[0]), timeout=None)
        assert isinstance(error, AskDeadlock)
        assert error.cycle == (walkers[-1], *walkers)


@pytest.mark.parametrize("kinds", [*ON_THREADS, *MIXED], ids="-".join)
async def test_who_asks_those_that_ask_others_in_turn_is_answered(system: ActorSystem, kinds: tuple[str, ...]) -> None:
    walkers = on_each_loop(system, kinds, 1)
    for _ in range(ROUNDS):
        chains = [
            one.ask(tuple(walkers[number:]), timeout=None)
            for number, one in enumerate(walkers[:-1], 1)
            for _ in range(3)
        ]
        assert [await one for one in chains] == ["the end"] * len(chains)


async def test_the_actor_asked_knows_who_blocks_its_thread_for_the_answer(system: ActorSystem) -> None:
    def who(ctx: Context, _: Any) -> Any:
        return ctx.sender

    def ask(ctx: Context, other: Ref) -> Any:
        return other.ask_sync(None, timeout=None)

    one: Ref = system.spawn(ask, parent=system.spawn(who), dispatcher="parallel")
    two: Ref = system.spawn(who)
    assert one._cell.loop is not two._cell.loop
    assert await one.ask(two, timeout=None) == one


@pytest.mark.parametrize("kind", ["pinned", "parallel"])
async def test_who_waits_for_one_that_waits_for_nobody_gives_up_in_time(
    system: ActorSystem, clock: ManualClock, kind: str
) -> None:
    opens = Event()

    async def ask(ctx: Context, other: Ref) -> Any:
        return await outcome(other.ask(None, timeout=2.0))

    def ask_sync(ctx: Context, other: Ref) -> Any:
        return outcome_sync(other, None, 2.0)

    async def hesitate(ctx: Context, _: Any) -> str:
        await opens.wait()
        return "late"

    parents: list[Ref] = [system.spawn(hesitate) for _ in range(2)]
    one: Ref = system.spawn(ask_sync if kind == "parallel" else ask, parent=parents[0], dispatcher=kind)
    two: Ref = system.spawn(hesitate, parent=parents[1], dispatcher="pinned")
    assert one._cell.loop is not two._cell.loop
    asking = asyncio.create_task(one.ask(two, timeout=None))
    error = await pass_time(clock, asking)
    assert isinstance(error, AskTimeout)
    assert error.timeout == 2.0
    opens.set()
    await system.settle()
    assert system.ledger().late_replies == 1


async def test_a_circle_is_none_if_one_was_cancelled_before_the_last_began_to_wait(
    system: ActorSystem,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # case 25
    held: list[tuple[Walk, Any]] = []
    seen: list[tuple[Any, Any]] = []
    cells: list[Any] = []
    go_to = Walk._go_to

    def hold_the_first(walk: Walk, cell: Any) -> Any:
        if not held and cells and walk._asker is cells[0]:
            held.append((walk, cell))
            return None
        following = go_to(walk, cell)
        seen.append((walk._asker, cell))
        return following

    monkeypatch.setattr(Walk, "_go_to", hold_the_first)
    begins, opens, goes_on, gave_up = Event(), Event(), Event(), Event()
    holds, lets_go = threading.Event(), threading.Event()
    limits: list[tuple[asyncio.AbstractEventLoop, asyncio.Timeout]] = []
    heard: list[Any] = []

    async def ask(ctx: Context, path: tuple[Ref, ...]) -> Any:
        return await outcome(path[0].ask(path[1:], timeout=None)) if path else "here"

    async def give_up(ctx: Context, path: tuple[Ref, ...]) -> Any:
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                limits.append((asyncio.get_running_loop(), limit))
                await path[0].ask(path[1:], timeout=None)
        gave_up.set()
        await goes_on.wait()
        return "late, but here"

    async def ask_late(ctx: Context, path: tuple[Ref, ...]) -> None:
        begins.set()
        await opens.wait()
        heard.append(await outcome(path[0].ask((), timeout=None)))

    def hold(ctx: Context, _: Any) -> None:
        holds.set()
        assert lets_go.wait(PATIENCE)

    parents: list[Ref] = [system.spawn(hold) for _ in range(3)]
    one, two, three = circle = [
        system.spawn(handler, parent=parent, dispatcher="pinned")
        for handler, parent in zip([ask, give_up, ask_late], parents, strict=True)
    ]
    cells.extend(ref._cell for ref in circle)
    assert len({cell.loop for cell in cells}) == 3
    asking = one.ask((two, three, one), timeout=None)
    await begins.wait()
    await until(lambda: held and (cells[1], cells[2]) in seen)  # so that the second waits
    parents[2].tell(None)
    await until(holds.is_set)
    go_to(*held[0])
    await until(lambda: (cells[0], cells[2]) in seen)  # on its way to the third, whose loop is held
    aio, limit = limits[0]
    aio.call_soon_threadsafe(limit.reschedule, 0.0)
    await gave_up.wait()  # which the loop of the third hears after that
    opens.set()
    await until(lambda: (cells[2], cells[0]) in seen)  # so that the third waits
    lets_go.set()
    await turns()
    goes_on.set()
    assert await asking == "late, but here"
    await system.settle()
    assert heard == ["here"]
