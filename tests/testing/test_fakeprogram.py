"""`FakePeer.program`: ports in simulations run scripts, with delays, split pieces and deaths from the seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem, ExitKind, MailboxConfig
from greenroom.errors import FrameTooLarge, ProgramFailed
from greenroom.meta import (
    CloseWrite,
    Exited,
    Fixed,
    LengthPrefixed,
    Lines,
    Output,
    Port,
    Raw,
    Write,
)
from greenroom.testing import FakePeer, FakeProgram, Simulation, capture_logs
from tests.testing.programs import SEEDS, Owner, Stage, rest


async def sort(program: FakeProgram) -> None:
    program.write(b"".join(sorted([line async for line in program])))


# -- input and output


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_go_in_and_come_out_and_the_end_comes_last(seed: int) -> None:  # E10 B1
    async def main(system: ActorSystem) -> None:
        stage = Stage(system, sort, delay=(0.0, 0.5), split=True)
        alias = await stage.begin()
        for word in (b"pear", b"apple", b"", b"fig"):
            stage.owner.tell(Write(word))
        stage.owner.tell(CloseWrite())
        assert await stage.end(alias) == Exited(alias, 0, None)
        assert stage.heard[:-2] == [Output(alias, word, "stdout") for word in (b"", b"apple", b"fig", b"pear")]
        assert stage.heard[-1] is None  # it ended well
        assert (await alias.terminated()).kind is ExitKind.NORMAL

    Simulation(seed=seed).run(main)


def test_a_script_causes_the_messages_that_a_real_program_does() -> None:  # E10
    """The same for both: to a line it answers with two, one of them an error; at the end it has a last word."""
    shell = 'while read -r line; do echo "$line!"; echo "$line?" >&2; done; printf "$1 $KEY"; exit 3'

    async def script(program: FakeProgram) -> int:
        async for line in program:
            program.write(line.strip() + b"!\n")
            program.write_error(line.strip() + b"?\n")
        program.write(f"{program.args[4]} {program.env['KEY']}".encode())
        return 3

    async def main(system: ActorSystem) -> list[Any]:
        heard: list[Any] = []
        command = ["/bin/sh", "-c", shell, "sh", "word"]
        owner = system.spawn(Owner, lambda: Port(command, extra_environment={"KEY": "value"}, check=True), heard)
        alias = await owner.ask("alias")
        for word in (b"one", b"two"):
            await alias.ask(Write(word))
        await alias.ask(CloseWrite())
        await alias.terminated()
        await system.settle()
        *outputs, exited, cause = heard
        assert exited == Exited(alias, 3)
        assert isinstance(cause, ProgramFailed)
        return [[one.data for one in outputs if one.stream == stream] for stream in ("stdout", "stderr")]

    async def simulated(system: ActorSystem) -> list[Any]:
        FakePeer(system, delay=(0.0, 0.1), split=True).program("sh", script)
        return await main(system)

    async def real() -> list[Any]:
        async with ActorSystem() as system:
            return await main(system)

    expected = [[b"one!", b"two!", b"word value"], [b"one?", b"two?"]]
    with capture_logs(quiet=True):
        assert asyncio.run(real()) == expected
        for seed in SEEDS:
            assert Simulation(seed=seed).run(simulated) == expected


@pytest.mark.parametrize("framing", [LengthPrefixed(), Fixed(3)], ids=["length", "fixed"])
def test_frames_go_both_ways_however_they_are_cut(framing: Any) -> None:  # E10 B1
    frames = [b"abc", b"\n\x00\xff", b"xyz"]

    async def mirror(program: FakeProgram) -> None:
        head = 4 if isinstance(framing, LengthPrefixed) else 0
        while True:
            try:
                size = await program.read_exactly(head)
                body = await program.read_exactly(3)
            except EOFError:
                return
            program.write(size + body[::-1])

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, mirror, delay=(0.0, 0.1), split=True)
        alias = await stage.begin(framing=framing)
        for frame in frames:
            alias.tell(Write(frame))
        alias.tell(CloseWrite())
        assert (await stage.end(alias)).status == 0
        assert stage.lines() == [frame[::-1] for frame in frames]

    for seed in SEEDS:
        Simulation(seed=seed).run(main)


def test_raw_output_comes_in_the_pieces_that_the_seed_cuts() -> None:  # B1
    async def script(program: FakeProgram) -> None:
        program.write(bytes(range(100)))

    def pieces(seed: int, split: bool) -> list[bytes]:
        async def main(system: ActorSystem) -> list[bytes]:
            stage = Stage(system, script, split=split)
            await stage.end(await stage.begin(framing=Raw()))
            return stage.lines()

        return Simulation(seed=seed).run(main)

    assert pieces(1, split=False) == [bytes(range(100))]
    found = [pieces(seed, split=True) for seed in SEEDS]
    assert all(b"".join(one) == bytes(range(100)) for one in found)
    assert len({len(one) for one in found}) > 2
    assert found == [pieces(seed, split=True) for seed in SEEDS]


@pytest.mark.parametrize(
    ("stderr", "outputs"),
    [
        ("message", [("stdout", b"out"), ("stderr", b"trouble")]),
        ("stdout", [("stdout", b"out"), ("stdout", b"trouble")]),
        ("inherit", [("stdout", b"out")]),
        ("null", [("stdout", b"out")]),
    ],
)
def test_errors_go_where_the_port_leads_them(stderr: str, outputs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    async def script(program: FakeProgram) -> None:
        program.write(b"out\n")
        await program.drain()
        program.write_error(b"trouble")

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script)
        alias = await stage.begin(stderr=stderr)
        await stage.end(alias)
        assert [(one.stream, one.data) for one in stage.heard if isinstance(one, Output)] == outputs

    Simulation(seed=1).run(main)
    assert ("trouble" in capsys.readouterr().err) == (stderr == "inherit")


def test_output_that_is_no_frame_ends_the_program() -> None:  # E10
    async def script(program: FakeProgram) -> None:
        program.write(b"fine\n" + b"x" * 100)
        await rest(program)

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script)
        alias = await stage.begin(framing=Lines(max_size=10))
        exited = await stage.end(alias)
        assert stage.lines() == [b"fine"]
        assert (exited.status, type(exited.error)) == (-15, FrameTooLarge)

    with capture_logs(quiet=True):
        Simulation(seed=1).run(main)


def test_a_script_reads_what_there_is_until_the_end_of_its_input() -> None:
    seen: list[Any] = []

    async def script(program: FakeProgram) -> None:
        seen.append(await program.read_exactly(2))
        seen.append(await program.read())
        seen.append(await program.read_line())
        seen.append(await program.read_line())
        with pytest.raises(asyncio.IncompleteReadError) as caught:
            await program.read_exactly(5)
        seen.append(caught.value.partial)
        seen.extend([await program.read(), await program.read_line()])

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script)
        alias = await stage.begin(framing=Raw())
        for data in (b"abc", b"one\n\nend"):
            alias.tell(Write(data))
        alias.tell(CloseWrite())
        assert (await stage.end(alias)).status == 0
        assert seen == [b"ab", b"c", b"one\n", b"\n", b"end", b"", b""]

    Simulation(seed=1).run(main)


def test_a_script_sees_its_surroundings() -> None:
    seen: list[Any] = []

    async def script(program: FakeProgram) -> None:
        seen.append((program.args, program.cwd, dict(program.env), program.pid))

    async def main(system: ActorSystem) -> None:
        heard: list[Any] = []
        peer = FakePeer(system)
        peer.program("tool", script)
        peer.program("a | b", script)
        ports: list[Callable[[], Port]] = [
            lambda: Port(["tool", "-v"], cwd="/srv", environment={"A": "1"}, extra_environment={"B": "2"}),
            lambda: Port([Path("/opt/tool")], environment={}),
            lambda: Port("a | b", shell=True, environment={}, cwd=Path("/")),
        ]
        for make in ports:
            alias = await system.spawn(Owner, make, heard).ask("alias")
            await alias.terminated()

    Simulation(seed=1).run(main)
    assert seen == [
        (("tool", "-v"), "/srv", {"A": "1", "B": "2"}, 1),
        (("/opt/tool",), str(Path.cwd()), {}, 2),
        (("/bin/sh", "-c", "a | b"), "/", {}, 3),
    ]


def test_a_script_runs_in_the_context_of_the_test_and_not_of_the_actor_that_starts_it() -> None:
    who = ContextVar("who", default="nobody")
    seen: list[str] = []

    async def script(program: FakeProgram) -> None:
        seen.append(who.get())
        who.set("a script")

    class Setter(Owner):
        def pre_start(self) -> None:
            who.set("an actor")
            super().pre_start()

    async def main(system: ActorSystem) -> None:
        who.set("the test")
        FakePeer(system).program("prog", script)
        for _ in range(2):
            alias = await system.spawn(Setter, lambda: Port(["prog"]), []).ask("alias")
            await alias.terminated()

    Simulation(seed=1).run(main)
    assert seen == ["the test", "the test"]


# -- holding up


def test_an_owner_that_is_slow_holds_the_program_up() -> None:  # E10
    line = b"x" * 1023 + b"\n"
    written = 0

    async def script(program: FakeProgram) -> None:
        nonlocal written
        await program.read_line()
        for _ in range(1000):
            program.write(line)
            await program.drain()
            written += 1

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script, delay=(0.0, 0.01), split=True)
        go_on = asyncio.Event()
        alias = await stage.begin(mailbox=MailboxConfig(capacity=10), gate=go_on)
        alias.tell(Write(b"go"))
        await asyncio.sleep(1000)
        assert 64 <= written <= 90  # as much as the mailbox and the pipe hold
        go_on.set()
        assert (await stage.end(alias)).status == 0
        assert stage.lines() == [line[:-1]] * 1000

    Simulation(seed=1).run(main)


def test_the_last_words_of_a_program_wait_for_a_slow_owner() -> None:  # E10
    async def script(program: FakeProgram) -> None:
        await program.read_line()
        program.write(b"".join(b"%d\n" % number for number in range(50)))

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script)
        go_on = asyncio.Event()
        alias = await stage.begin(mailbox=MailboxConfig(capacity=3), gate=go_on)
        alias.tell(Write(b"go"))
        await asyncio.sleep(1000)
        assert stage.heard == []
        go_on.set()
        assert (await stage.end(alias)).status == 0
        assert stage.lines() == [b"%d" % number for number in range(50)]

    for seed in SEEDS:
        Simulation(seed=seed).run(main)


def test_a_program_that_does_not_read_holds_up_whoever_writes() -> None:  # E10
    async def script(program: FakeProgram) -> None:
        await asyncio.sleep(60)
        program.write(b"%d\n" % sum([len(line) async for line in program]))

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script)
        alias = await stage.begin(high_water=1000)
        assert await alias.ask(Write(b"x" * 65_535)) == 65_536
        assert asyncio.get_running_loop().time() < 1
        assert await alias.ask(Write(b"y" * 1999), timeout=None) == 2000  # more than the pipe holds
        assert asyncio.get_running_loop().time() == 60
        alias.tell(CloseWrite())
        await stage.end(alias)
        assert stage.lines() == [b"67536"]

    Simulation(seed=1).run(main)


def test_what_is_written_to_a_program_that_reads_no_more_is_a_dead_letter() -> None:  # E10
    async def script(program: FakeProgram) -> None:
        program.close_input()
        assert await program.read() == b""
        await asyncio.sleep(10)

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script)
        alias = await stage.begin()
        await asyncio.sleep(0.5)
        alias.tell(Write(b"too late"))
        assert (await stage.end(alias)).status == 0
        assert [letter.message for letter in system.dead_letters.recent()] == [Write(b"too late")]
        assert asyncio.get_running_loop().time() == 10

    with capture_logs(quiet=True):
        Simulation(seed=1).run(main)
