"""`FakePeer.program`: what a seed decides of a script, and the bugs that this finds."""

from __future__ import annotations

import asyncio
from typing import Any

from greenroom import Actor, ActorSystem, Supervision
from greenroom.meta import (
    CloseWrite,
    MetaOptions,
    Output,
    Port,
    Raw,
    Write,
)
from greenroom.testing import FakePeer, FakeProgram, Simulation, capture_logs, explore
from tests.testing.programs import Stage


async def chat(system: ActorSystem) -> int:
    """A program that talks and dies, and is started again."""

    async def script(program: FakeProgram) -> int:
        async for line in program:
            program.write(b"heard " + line)
            program.write_error(line)
            await asyncio.sleep(0.05)
        return 2

    stage = Stage(system, script, delay=(0.0, 0.2), split=True, cut=0.05)
    supervision = Supervision(max_restarts=None)
    alias = await stage.begin(check=True, meta=MetaOptions(supervision=supervision))
    for number in range(20):
        alias.tell(Write(b"%d" % number))
        await asyncio.sleep(0.1)
    return len(stage.heard)


def test_a_seed_replays_a_program_and_another_one_differs() -> None:  # B1
    def traces() -> list[tuple[int, str, str]]:
        found = []
        for seed in range(8):
            simulation = Simulation(seed=seed)
            with capture_logs(quiet=True):
                count = simulation.run(chat)
            found.append((count, str(simulation.trace.digest), str(simulation.trace)))
        return found

    first = traces()
    assert traces() == first
    assert len({digest for _, digest, _ in first}) == len(first)


class Careless(Actor[Any, Any]):
    """Takes each output for a whole record, which is wrong: a pipe keeps no records apart."""

    def pre_start(self) -> None:
        self.total = 0
        self.ctx.spawn_meta(Port(["count"], framing=Raw()))

    def receive(self, message: Any) -> Any:
        if isinstance(message, Output):
            self.total += int(message.data)
        return self.total


async def count_carelessly(system: ActorSystem) -> int:
    async def script(program: FakeProgram) -> None:
        program.write(b"12")

    FakePeer(system, split=True).program("count", script)
    owner = system.spawn(Careless)
    await asyncio.sleep(1)
    return int(await owner.ask("total"))


class Trusting(Actor[Any, Any]):
    """Counts a job as done when the program begins it, which is wrong: it may die before its end."""

    def pre_start(self) -> None:
        self.claimed: list[bytes] = []
        port = self.ctx.spawn_meta(Port(["work"]))
        for job in (b"one", b"two", b"three"):
            port.tell(Write(job))
        port.tell(CloseWrite())

    def receive(self, message: Any) -> Any:
        if isinstance(message, Output) and message.data.startswith(b"begin "):
            self.claimed.append(message.data.removeprefix(b"begin "))
        return self.claimed


async def work_trustingly(system: ActorSystem) -> tuple[list[bytes], list[bytes]]:
    done: list[bytes] = []

    async def script(program: FakeProgram) -> None:
        async for job in program:
            program.write(b"begin " + job)
            await asyncio.sleep(1)
            program.write(b"end " + job)
            await program.drain()
            done.append(job.strip())

    FakePeer(system, delay=(0.0, 0.5), cut=0.05).program("work", script)
    owner = system.spawn(Trusting)
    await asyncio.sleep(100)
    return await owner.ask("claimed"), done


def test_exploring_finds_a_bug_that_depends_on_where_output_is_cut() -> None:
    report = explore(
        count_carelessly, runs=50, check=lambda total: total == 12, workers=1, output=None, shrink_seconds=1.0
    )
    assert report.failure is not None
    with capture_logs(quiet=True):
        assert Simulation(seed=report.failure.seed).run(count_carelessly) == 3


def test_exploring_finds_a_bug_that_depends_on_when_the_program_dies() -> None:
    report = explore(
        work_trustingly,
        runs=200,
        check=lambda both: set(both[0]) <= set(both[1]),
        workers=1,
        output=None,
        shrink_seconds=1.0,
    )
    assert report.failure is not None
    claimed, done = Simulation(seed=report.failure.seed).run(work_trustingly)
    assert set(claimed) - set(done)


def test_a_program_dies_where_the_seed_has_it() -> None:  # B1
    words = [b"%d" % number for number in range(10)]

    async def script(program: FakeProgram) -> None:
        for word in words:
            program.write(word + b"\n")

    async def main(system: ActorSystem) -> tuple[int, int]:
        stage = Stage(system, script, delay=(0.0, 0.1), cut=0.1)
        alias = await stage.begin()
        status = (await stage.end(alias)).status
        found = stage.lines()
        assert found == words[: len(found)]
        assert (status == 0) == (found == words)
        return status, len(found)

    ends = [Simulation(seed=seed).run(main) for seed in range(60)]
    assert {status for status, _ in ends} == {0, -9}
    assert len({count for _, count in ends}) > 4
