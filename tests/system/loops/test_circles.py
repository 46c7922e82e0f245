"""Asks across loops that wait for one another in a circle: one of each is refused. And those that only look like it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, AskDeadlock, AskTimeout, Context, ManualClock, Reply
from greenroom.actor.messaging.question import Walk
from tests.conformance.askers import Ref, outcome, until
from tests.conftest import Play
from tests.gates import Event, turns

PATIENCE = 120.0
ROUNDS = 30


@pytest.fixture
def play() -> Play:
    return Play("spread")


class Walker(Actor[Any, Any]):
    """Asks the first of a path to walk the rest of it, once all have come to the barrier. An error is an answer too."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self.barrier = barrier

    async def receive(self, message: tuple[Ref, ...]) -> Any:
        if not message:
            return "the end"
        self.barrier.wait(PATIENCE)
        return await outcome(message[0].ask(message[1:], timeout=None))


async def at_once(walkers: list[Ref]) -> list[Any]:
    """What comes of it for each, if all ask the next at the same moment."""
    asks = [one.ask((walkers[(number + 1) % len(walkers)],), timeout=None) for number, one in enumerate(walkers)]
    return [await one for one in asks]


def assert_one_is_refused(ends: list[Any], circle: list[Ref]) -> None:
    """The others go on, and the error names all from the one that is refused on."""
    [number] = [number for number, end in enumerate(ends) if isinstance(end, AskDeadlock)]
    assert ends[number].cycle == (*circle[number:], *circle[:number], circle[number])
    assert [end for end in ends if end is not ends[number]] == ["the end"] * (len(circle) - 1)


@pytest.mark.parametrize("length", [2, 3])
async def test_of_those_who_ask_one_another_at_once_one_is_refused_though_each_finds_the_circle(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:  # case 25
    found = threading.Barrier(length)
    close = Walk._close

    def close_together(walk: Walk) -> None:
        found.wait(PATIENCE)  # nobody has been refused yet when the last finds it
        close(walk)

    monkeypatch.setattr(Walk, "_close", close_together)
    barrier = threading.Barrier(length)
    walkers: list[Ref] = [system.spawn(Walker, barrier) for _ in range(length)]
    assert len({one._cell.loop for one in walkers}) == length
    for _ in range(ROUNDS):
        assert_one_is_refused(await at_once(walkers), walkers)


@pytest.mark.parametrize("length", [2, 3])
async def test_of_those_who_ask_one_another_at_once_one_is_refused_whoever_finds_the_circle(
    system: ActorSystem, length: int
) -> None:  # case 25
    barrier = threading.Barrier(length)
    walkers: list[Ref] = [system.spawn(Walker, barrier) for _ in range(length)]
    for _ in range(ROUNDS):
        assert_one_is_refused(await at_once(walkers), walkers)
    await system.settle()
    assert system.ledger().late_replies == ROUNDS  # of those that were refused, and handled later


async def test_who_asks_back_is_refused_even_if_it_waits_before_the_one_it_was_asked_by(
    system: ActorSystem,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # case 25
    waits = threading.Event()
    go_to = Walk._go_to

    def go_and_tell(walk: Walk, cell: Any) -> Any:
        following = go_to(walk, cell)
        waits.set()
        return following

    monkeypatch.setattr(Walk, "_go_to", go_and_tell)

    async def ask(ctx: Context, other: Ref | None) -> Any:
        if other is None:
            return "here"
        asked = other.ask(ctx.self, timeout=None)
        assert waits.wait(PATIENCE)  # its thread is held, and the other waits already
        return await outcome(asked)

    async def ask_back(ctx: Context, asker: Ref) -> Any:
        return [await outcome(asker.ask(None, timeout=None))]

    one: Ref = system.spawn(ask)
    two: Ref = system.spawn(ask_back)
    [error] = await one.ask(two, timeout=None)
    assert isinstance(error, AskDeadlock)
    assert error.cycle == (two, one, two)


async def test_a_circle_is_none_if_one_gave_up_before_the_last_began_to_wait(
    system: ActorSystem,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # case 25
    held: list[tuple[Walk, Any]] = []
    first: list[Ref] = []
    go_to = Walk._go_to

    def hold_one(walk: Walk, cell: Any) -> Any:
        if first and walk._asker is first[0]._cell and len(held) < 2:
            held.append((walk, cell))
            return None
        return go_to(walk, cell)

    monkeypatch.setattr(Walk, "_go_to", hold_one)
    opens, goes_on, gave_up = Event(), Event(), Event()

    async def ask(ctx: Context, path: tuple[Ref, ...]) -> Any:
        return await outcome(path[0].ask(path[1:], timeout=None)) if path else "here"

    async def give_up(ctx: Context, path: tuple[Ref, ...]) -> Any:
        assert isinstance(await outcome(path[0].ask(path[1:], timeout=1.0)), AskTimeout)
        gave_up.set()
        await goes_on.wait()
        return "late, but here"

    async def ask_late(ctx: Context, path: tuple[Ref, ...]) -> None:
        await opens.wait()
        heard.append(await outcome(path[0].ask((), timeout=None)))

    heard: list[Any] = []
    one: Ref = system.spawn(ask)
    two: Ref = system.spawn(give_up)
    three: Ref = system.spawn(ask_late)
    first.append(one)
    asking = one.ask((two, three, one), timeout=None)
    await until(lambda: system.ledger(three).sent)
    await turns()  # so that the second waits
    go_to(*held[0])
    await until(lambda: len(held) == 2)  # on its way to the third
    await clock.advance(1.0)
    await gave_up.wait()
    opens.set()
    await until(lambda: system.ledger(one).queued)
    await turns()  # so that the third waits
    go_to(*held[1])
    await turns()
    goes_on.set()
    assert await asking == "late, but here"
    await system.settle()
    assert heard == ["here"]


@pytest.mark.parametrize("way", ["defers", "forwards"])
async def test_a_walk_finds_no_circle_if_the_actor_asked_left_the_answer_to_another_before_it_came(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:  # case 25
    asks_back = threading.Event()
    begun: list[Any] = []
    go_to = Walk._go_to

    def go_late(walk: Walk, cell: Any) -> Any:
        begun.append(cell)
        if len(begun) == 1:
            assert asks_back.wait(PATIENCE)  # so the walk comes to one that waits already
        return go_to(walk, cell)

    monkeypatch.setattr(Walk, "_go_to", go_late)
    kept: list[Reply] = []
    heard: list[Any] = []

    def keep(ctx: Context, _: Any) -> None:
        kept.append(ctx.defer_reply())

    async def ask(ctx: Context, other: ActorRef[Any, Any] | None) -> Any:
        return "here" if other is None else await other.ask(ctx.self, timeout=None)

    async def ask_back(ctx: Context, asker: ActorRef[Any, Any]) -> None:
        if way == "forwards":
            ctx.forward(keeper)
        else:
            keep(ctx, None)
        asks_back.set()
        heard.append(await asker.ask(None, timeout=None))

    keeper: ActorRef[Any, Any] = system.spawn(keep)
    one: ActorRef[Any, Any] = system.spawn(ask)
    two: ActorRef[Any, Any] = system.spawn(ask_back)
    asking = one.ask(two, timeout=None)
    await until(lambda: len(begun) >= 2 and kept)
    await turns()  # for the probes, which show nowhere
    kept[0].send("by another")
    assert await asking == "by another"
    await system.settle()
    assert heard == ["here"]
