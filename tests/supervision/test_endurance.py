"""Many restarts, and many failures under load: exact in time, nothing lost, nobody left behind (M6, M7, J10)."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Backoff,
    ChildSpec,
    ManualClock,
    Scope,
    State,
    Supervision,
    Supervisor,
    WhichChildren,
)
from tests.conftest import Play

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = [pytest.param(1_000, id="smoke"), pytest.param(100_000, id="full", marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    """A hundred thousand failures are a hundred thousand tracebacks to format."""
    logger = logging.getLogger("greenroom")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


def resident_memory() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Boom(Exception):
    pass


class Mayfly(Actor[str, str]):
    """Lives for as long as the next number says, and notes when it was made."""

    def __init__(self, spans: Iterator[float], born: list[float]) -> None:
        self.spans = spans
        self.born = born

    def pre_start(self) -> None:
        self.born.append(self.ctx.now())
        span = next(self.spans, None)
        if span is not None:
            self.ctx.send_after(span, self.ctx.self, "die")

    def receive(self, message: str) -> str:
        if message == "die":
            raise Boom
        return message


def births(spans: list[float], backoff: Backoff, quiet: float) -> list[float]:
    """When each incarnation is made, in the words of the spec: the delay doubles up to its maximum, and begins anew
    when the actor has run for `quiet` seconds, and for as long as its last delay."""
    moments = [0.0]
    in_a_row, last = 0, 0.0
    for number, span in enumerate(spans):
        # Since when the first incarnation runs does not matter: there is nothing to begin anew.
        if number and span >= max(quiet, last):
            in_a_row = 0
        last = min(backoff.min * backoff.factor**in_a_row, backoff.max)
        in_a_row += 1
        moments.append((moments[-1] + span) + last)
    return moments


@pytest.mark.parametrize("restarts", SIZES)
def test_every_restart_comes_exactly_when_its_backoff_is_over(play: Play, restarts: int) -> None:  # R3, case 42
    clock = ManualClock()
    play.deadline = 1800.0
    chance = random.Random(3)
    backoff = Backoff(min=0.01, max=1.0)
    actors = 50
    lives = [[chance.choice([0.0, 0.25, 0.5, 1.0, 1.5]) for _ in range(restarts // actors)] for _ in range(actors)]
    born: list[list[float]] = [[] for _ in lives]

    async def program(system: ActorSystem) -> None:
        patient = Supervision(max_restarts=None, within=1.0, backoff=backoff)
        refs = [
            system.spawn(Mayfly, iter(spans), book, supervision=patient)
            for spans, book in zip(lives, born, strict=True)
        ]
        await clock.advance(3.0 * restarts // actors)
        assert [ref.state for ref in refs] == [State.RUNNING] * actors
        snapshot = system.snapshot()
        assert sum(one.restarts for one in snapshot.actors) == restarts
        assert snapshot.timers == 0
        assert system.ledger().failed == restarts

    play(program, clock=clock)
    assert born == [births(spans, backoff, quiet=1.0) for spans in lives]


def first_too_many(moments: list[float], limit: int, within: float) -> int:
    """Which failure is one too many: more than `limit` in the last `within` seconds, both ends included."""
    for number, now in enumerate(moments):
        if sum(1 for moment in moments[: number + 1] if now - moment <= within) > limit:
            return number
    return len(moments)


@pytest.mark.parametrize("restarts", SIZES)
def test_every_limit_is_reached_exactly_when_it_should_be(play: Play, restarts: int) -> None:  # R3, case 30
    clock = ManualClock()
    play.deadline = 1800.0
    chance = random.Random(5)
    lives = [[chance.choice([0.25, 0.5, 1.0, 2.0]) for _ in range(100)] for _ in range(restarts // 20)]
    born: list[list[float]] = [[] for _ in lives]

    async def program(system: ActorSystem) -> None:
        strict = Supervision(max_restarts=3, within=2.0, backoff=None)
        refs = [
            system.spawn(Mayfly, iter(spans), book, supervision=strict) for spans, book in zip(lives, born, strict=True)
        ]
        await clock.advance(300.0)
        for ref, book, spans in zip(refs, born, lives, strict=True):
            failures = [moment + span for moment, span in zip(book, spans, strict=False)]
            last = first_too_many(failures, 3, 2.0)
            assert len(book) == min(last + 1, len(spans) + 1)
            assert ref.is_alive == (last == len(spans))

    play(program, clock=clock)
    assert sum(map(len, born)) > restarts / 10


@pytest.mark.parametrize(
    "rounds", [pytest.param(20, id="smoke"), pytest.param(2_000, id="full", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("scope", list(Scope))
async def test_a_supervisor_counts_exactly_too(
    play: Play, system: ActorSystem, clock: ManualClock, scope: Scope, rounds: int
) -> None:  # R3, J10, case 30
    play.deadline = 1800.0
    chance = random.Random(7)
    for _ in range(rounds):
        books: list[list[float]] = [[], [], []]
        children = [ChildSpec(name, Mayfly, (iter(()), book)) for name, book in zip("abc", books, strict=True)]
        spec = Supervisor.spec(children, scope, intensity=4, period=3.0)
        supervisor = system.spawn(Supervisor, spec)
        await supervisor.started()
        refs = [child.ref for child in await supervisor.ask(WhichChildren())]
        moments: list[float] = []
        while supervisor.is_alive:
            await clock.advance(chance.choice([0.25, 0.5, 1.0, 1.5]))
            moments.append(clock.now())
            ref = chance.choice(refs)
            assert ref is not None
            ref.tell("die")
            await clock.advance(0.0)
        assert first_too_many(moments, 4, 3.0) == len(moments) - 1
        assert isinstance((await supervisor.terminated()).cause, Boom)
        group = {Scope.ONE_FOR_ONE: 1, Scope.ONE_FOR_ALL: 3}.get(scope)
        if group is not None:
            assert sum(map(len, books)) == 3 + group * (len(moments) - 1)
    assert system.actors() == []


class Clerk(Actor[int, int]):
    """Handles numbers; on one in a hundred, which says so, it fails."""

    def receive(self, message: int) -> int:
        if message < 0:
            raise Boom
        return message


class Office(Actor[Any, Any]):
    """Has ten clerks."""

    def __init__(self, clerks: list[ActorRef[int, int]]) -> None:
        self.clerks = clerks

    def pre_start(self) -> None:
        self.clerks.extend(self.ctx.spawn(Clerk) for _ in range(10))

    def receive(self, message: Any) -> None: ...


@pytest.mark.parametrize(
    ("actors", "messages"),
    [pytest.param(300, 60_000, id="smoke"), pytest.param(10_000, 10_000_000, id="full", marks=pytest.mark.slow)],
)
def test_failures_of_one_in_a_hundred_under_load_lose_nothing_and_strand_nobody(
    play: Play, actors: int, messages: int
) -> None:  # R1, M7
    chance = random.Random(11)
    backoff = Backoff(min=0.001, max=0.01, jitter=0.5)
    sizes: list[int] = []
    clock = ManualClock()
    play.deadline = 1800.0

    async def program(system: ActorSystem) -> None:
        clerks: list[ActorRef[int, int]] = []
        for number in range(actors // 10):
            scope = list(Scope)[number % 3]
            system.spawn(Office, clerks, supervision=Supervision(scope=scope, max_restarts=None, backoff=backoff))
        await system.settle()
        assert len(clerks) == actors
        failing = sent = 0
        for _ in range(10):
            for _ in range(messages // 10):
                fails = chance.random() < 0.01
                failing += fails
                clerks[chance.randrange(actors)].tell(-1 if fails else sent)
                sent += 1
                if sent % 5_000 == 0:
                    await clock.advance(0.002)
            await all_running(system, clock, clerks)
            gc.collect()
            sizes.append(resident_memory() if sys.platform == "linux" else 0)
        await all_running(system, clock, clerks)
        ledger = system.ledger()
        assert (ledger.sent, ledger.handled, ledger.failed) == (sent, sent - failing, failing)
        assert ledger.balanced
        answers = await asyncio.gather(*(clerk.ask(7) for clerk in clerks[:1000]))
        assert answers == [7] * len(answers)
        assert len(system.actors()) == actors + actors // 10
        assert system.dead_letters.count == 0

    play(program, clock=clock)
    # The first few are for whatever is made on first use.
    assert max(sizes[4:]) < 1.05 * sizes[3] + 5_000_000, sizes


async def all_running(system: ActorSystem, clock: ManualClock, refs: list[ActorRef[int, int]]) -> None:
    """Let time pass until everybody is running and nothing is queued."""
    for _ in range(1000):
        await clock.advance(0.02)
        if system.ledger().queued == 0 and all(ref.state is State.RUNNING for ref in refs):
            return
    raise AssertionError(f"not at rest after 20 s: {system.ledger()}")
