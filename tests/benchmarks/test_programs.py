"""Our own programs, at sizes too small to mean anything: each does all its work, and its account is checked."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

import pytest

from benchmarks.ours import (
    ask,
    ask_outside,
    async_pingpong,
    flood,
    foreign_threads,
    idle_memory,
    pingpong,
    pure_ask,
    pure_pingpong,
    random_targets,
    ring,
    sockets,
    spawn,
    stepping,
    timers,
)
from benchmarks.ours.stage import expect_all_handled, perform, seat
from benchmarks.peers import asyncio_programs, socket_programs
from benchmarks.program import Report, Unavailable
from greenroom import COMPILED, Actor, ActorSystem, SystemConfig

Work = Callable[[int], Report]


@pytest.fixture(autouse=True, scope="module")
def _thaw() -> Iterator[None]:
    # A program freezes what it finds, its own garbage too. What is left then is pytest's: no test needs to look at it.
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize(
    ("work", "size"),
    [
        (pingpong.run, 100),
        (ring.run, 1000),
        (flood.run, 60_000),  # more than one burst
        (async_pingpong.run, 100),
        (ask.run, 50),
        (ask_outside.on_asyncio, 50),
        (spawn.run, 2000),
        (idle_memory.run, 20_000),
        (random_targets.run, 2000),
        (foreign_threads.run, 400),
        (timers.run, 2000),
        (stepping.run, 50),
        (asyncio_programs.future_hop, 50),
    ],
)
def test_a_program_does_all_its_work(work: Work, size: int) -> None:
    assert work(size).value > 0.0


@pytest.mark.parametrize("work", [ask_outside.on_uvloop, asyncio_programs.future_hop_uvloop])
def test_a_program_for_uvloop_does_all_its_work(work: Work) -> None:
    pytest.importorskip("uvloop")
    assert work(50).value > 0.0


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("work", ["echo", "http", "idle", "storm"])
@pytest.mark.parametrize("program", [sockets, socket_programs])
def test_a_program_with_sockets_does_all_its_work(program: ModuleType, work: str, loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    if work == "http" and program is socket_programs:
        work = "uvicorn_h11"
    value = program.run(work, loop, 400).value
    assert value > 0.0 or work == "idle"  # so few may find room in what is there


@pytest.mark.parametrize("work", [pure_pingpong.run, pure_ask.run])
def test_a_program_for_the_plain_build_declines_in_the_compiled_one(work: Work) -> None:
    if COMPILED:
        with pytest.raises(Unavailable, match="has the compiled build"):
            work(50)
    else:
        assert work(50).value > 0.0


class Neighbour(Actor[object, bool]):
    """Says whether what it is asked about is its neighbour."""

    def __init__(self, seats: Sequence[object], place: int, side: int) -> None:
        self.neighbour = seats[place + side]

    def receive(self, message: object) -> bool:
        return message == self.neighbour


def test_seated_actors_know_one_another() -> None:
    async def play(system: ActorSystem) -> Report:
        first, second, third = await seat(system, 3, Neighbour, -1)
        assert await first.ask(third)
        assert await third.ask(second)
        assert not await second.ask(third)
        return Report(1.0)

    assert perform(play) == Report(1.0)


def test_a_play_gets_a_running_system_with_the_config_it_asked_for() -> None:
    async def play(system: ActorSystem) -> Report:
        return Report(system.config.max_actors, {system.phase: 0.0})

    assert perform(play, config=SystemConfig(max_actors=7)) == Report(7, {"running": 0.0})


@pytest.mark.parametrize("claimed", [1, 3])
def test_a_figure_is_refused_when_the_messages_are_not_those_of_the_work(claimed: int) -> None:
    async def play(system: ActorSystem) -> Report:
        for _ in range(2):
            system.spawn(flood.Sink).tell(1)
        await expect_all_handled(system, claimed)
        return Report(1.0)

    with pytest.raises(RuntimeError, match=f"messages sent: 2 instead of {claimed}"):
        perform(play)


def test_a_figure_is_refused_when_a_message_was_not_handled() -> None:
    async def play(system: ActorSystem) -> Report:
        sink = system.spawn(flood.Sink)
        sink.kill()
        sink.tell(1)
        await expect_all_handled(system, 1)
        return Report(1.0)

    with pytest.raises(RuntimeError, match="messages handled: 0 instead of 1"):
        perform(play)
