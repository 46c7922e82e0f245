"""`FakePeer.program`: ports in simulations run scripts, whose delays, signals and ends the seed decides."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Alias, ExitKind, MailboxConfig, Supervision
from greenroom.errors import ConfigError, FrameTooLarge, ProgramFailed, SimulationRefused
from greenroom.meta import (
    Close,
    CloseWrite,
    Exited,
    Fixed,
    LengthPrefixed,
    Lines,
    MetaOptions,
    Output,
    Port,
    Raw,
    SendSignal,
    Write,
)
from greenroom.testing import FakePeer, FakeProgram, Simulation, capture_logs, explore

SEEDS = range(20)


class Owner(Actor[Any, Any]):
    """Has a port, and keeps what it hears, when its gate is open; what is for the port, it passes on."""

    def __init__(
        self,
        make: Callable[[], Port],
        heard: list[Any],
        options: MetaOptions | None = None,
        gate: asyncio.Event | None = None,
    ) -> None:
        self.make, self.heard, self.options, self.gate = make, heard, options, gate

    def pre_start(self) -> None:
        self.alias = self.ctx.spawn_meta(self.make, self.options)

    async def receive(self, message: Any) -> Any:
        if message == "alias":
            return self.alias
        if isinstance(message, Write | CloseWrite | Close | SendSignal):
            self.alias.tell(message)
        else:
            if self.gate is not None:
                await self.gate.wait()
            self.heard.append(message)
        return None

    def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.heard.append(cause)


class Stage:
    """A system with an owner whose port runs a script."""

    def __init__(self, system: ActorSystem, script: Any, **faults: Any) -> None:
        self.system = system
        self.heard: list[Any] = []
        self.peer = FakePeer(system, **faults)
        self.peer.program("prog", script)

    async def begin(
        self,
        *arguments: str,
        meta: MetaOptions | None = None,
        mailbox: MailboxConfig | None = None,
        gate: asyncio.Event | None = None,
        **options: Any,
    ) -> Alias:
        """Have the owner run it."""
        make = lambda: Port(["prog", *arguments], **options)  # noqa: E731
        self.owner = self.system.spawn(Owner, make, self.heard, meta, gate, mailbox=mailbox)
        alias: Alias = await self.owner.ask("alias")
        return alias

    async def end(self, alias: Alias) -> Exited:
        """When all is over: the last message of the port."""
        await alias.terminated()
        await self.system.settle()
        messages = [one for one in self.heard if isinstance(one, Output | Exited)]
        assert [type(one) for one in messages[:-1]] == [Output] * (len(messages) - 1)
        assert isinstance(messages[-1], Exited)
        return messages[-1]

    def lines(self, stream: str = "stdout") -> list[Any]:
        """What was written to one of the streams."""
        return [one.data for one in self.heard if isinstance(one, Output) and one.stream == stream]


async def rest(program: FakeProgram) -> None:
    await asyncio.Event().wait()


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


# -- its end


async def fails(program: FakeProgram) -> None:
    raise ValueError("no soup")


async def leaves(program: FakeProgram) -> None:
    raise SystemExit(4)


async def leaves_with_a_word(program: FakeProgram) -> None:
    raise SystemExit("no soup")


async def is_confused(program: FakeProgram) -> Any:
    return "0"


def returns(status: int | None) -> Any:
    async def script(program: FakeProgram) -> int | None:
        program.write(b"last")
        return status

    return script


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (returns(None), 0),
        (returns(0), 0),
        (returns(3), 3),
        (returns(-11), -11),
        (leaves, 4),
        (leaves_with_a_word, 1),
        (fails, 1),
        (is_confused, 1),
    ],
)
def test_the_exit_status_is_what_the_script_returns_or_1_if_it_raises(script: Any, status: int) -> None:  # E10
    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script, delay=0.5)
        alias = await stage.begin()
        assert await stage.end(alias) == Exited(alias, status)
        assert stage.lines() in ([b"last"], [])

    with capture_logs(quiet=True) as logs:
        Simulation(seed=1).run(main)
    if script in (fails, is_confused):
        logs.assert_logged("the script of 'prog' raised, so the program exits with status 1")
    else:
        logs.assert_none()


def test_an_assertion_that_fails_in_a_script_fails_the_run() -> None:
    async def script(program: FakeProgram) -> None:
        assert await program.read_line() == b"please\n"

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script)
        alias = await stage.begin()
        alias.tell(Write(b"now"))
        await stage.end(alias)

    with capture_logs(quiet=True), pytest.raises(AssertionError, match="please"):
        Simulation(seed=1).run(main)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda stage, alias: alias.tell(Close()), -15),
        (lambda stage, alias: alias.stop(), -15),
        (lambda stage, alias: alias.tell(Close(abort=True)), -9),
        (lambda stage, alias: alias.kill(), -9),
        (lambda stage, alias: alias.tell(SendSignal(signal.SIGINT)), -2),
    ],
    ids=["close", "stop", "abort", "kill", "signal"],
)
def test_a_program_that_is_ended_cancels_its_script(end: Any, status: int) -> None:  # E10
    seen: list[str] = []

    async def script(program: FakeProgram) -> None:
        try:
            await rest(program)
        finally:
            seen.append("over")
            with pytest.raises(BrokenPipeError, match="has ended with status"):
                program.write(b"from beyond")

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script)
        alias = await stage.begin()
        await system.settle()
        await asyncio.sleep(1)
        end(stage, alias)
        assert await stage.end(alias) == Exited(alias, status)
        await asyncio.sleep(1)
        assert seen == ["over"]
        assert stage.lines() == []

    Simulation(seed=1).run(main)


def test_a_program_ends_with_its_owner() -> None:  # E10
    seen: list[str] = []

    async def script(program: FakeProgram) -> None:
        program.add_signal_handler(signal.SIGTERM, seen.append, "asked")
        await rest(program)

    async def main(system: ActorSystem) -> float:
        stage = Stage(system, script)
        alias = await stage.begin(kill_grace=3.0)
        await asyncio.sleep(1)
        stage.owner.stop()
        await alias.terminated()
        return asyncio.get_running_loop().time()

    assert Simulation(seed=1).run(main) == 4.0
    assert seen == ["asked"]


def test_a_program_has_its_grace_to_end_in_its_own_way() -> None:  # E10
    async def script(program: FakeProgram) -> int:
        asked = asyncio.Event()
        program.add_signal_handler(signal.SIGTERM, asked.set)
        await asked.wait()
        await asyncio.sleep(1.5)
        program.write(b"bye\n")
        return 3

    async def main(system: ActorSystem, grace: float) -> tuple[int, list[bytes], float]:
        stage = Stage(system, script)
        alias = await stage.begin(kill_grace=grace)
        await asyncio.sleep(1)
        alias.tell(Close())
        exited = await stage.end(alias)
        return exited.status, stage.lines(), asyncio.get_running_loop().time()

    assert Simulation(seed=1).run(lambda system: main(system, 2.0)) == (3, [b"bye"], 2.5)
    assert Simulation(seed=1).run(lambda system: main(system, 1.0)) == (-9, [], 2.0)


def test_a_grace_that_is_longer_than_the_ports_own_time_to_stop_ends_with_that() -> None:  # E10
    async def script(program: FakeProgram) -> None:
        program.add_signal_handler(signal.SIGTERM, program.write, b"never\n")
        await rest(program)

    async def main(system: ActorSystem) -> float:
        stage = Stage(system, script)
        alias = await stage.begin(kill_grace=1000.0)
        await asyncio.sleep(1)
        alias.tell(Close())
        assert await stage.end(alias) == Exited(alias, -9)
        assert stage.lines() == [b"never"]
        return asyncio.get_running_loop().time()

    with capture_logs(quiet=True):
        assert Simulation(seed=1).run(main) == 6.0  # stop_timeout is 5


def test_a_handler_can_end_its_program_which_then_writes_what_it_has_to_say() -> None:
    async def script(program: FakeProgram) -> None:
        def on_usr1() -> None:
            program.write(b"caught\n")
            program.exit(7)

        program.add_signal_handler(signal.SIGUSR1, on_usr1)
        await rest(program)

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script, delay=0.5)
        alias = await stage.begin()
        await asyncio.sleep(1)
        alias.tell(SendSignal(signal.SIGUSR1))
        assert await stage.end(alias) == Exited(alias, 7)
        assert stage.lines() == [b"caught"]

    Simulation(seed=1).run(main)


def test_a_handler_can_end_a_program_that_still_writes_its_last_words() -> None:
    async def script(program: FakeProgram) -> int:
        program.add_signal_handler(signal.SIGUSR1, program.exit, 7)
        program.write(b"last\n")
        return 3

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script, delay=5.0)
        alias = await stage.begin()
        await asyncio.sleep(1)
        alias.tell(SendSignal(signal.SIGUSR1))
        assert await stage.end(alias) == Exited(alias, 7)
        assert stage.lines() == [b"last"]

    Simulation(seed=1).run(main)


def test_a_killed_script_can_clean_up() -> None:
    seen: list[str] = []

    async def script(program: FakeProgram) -> None:
        try:
            await rest(program)
        finally:
            await asyncio.sleep(1)
            seen.append("clean")

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script)
        alias = await stage.begin()
        await asyncio.sleep(1)
        alias.tell(SendSignal(signal.SIGTERM))
        assert await stage.end(alias) == Exited(alias, -15)
        assert seen == []
        await asyncio.sleep(2)
        assert seen == ["clean"]

    Simulation(seed=1).run(main)


def test_signals_do_what_they_do_to_any_program() -> None:
    async def script(program: FakeProgram) -> None:
        for never in (signal.SIGKILL, signal.SIGSTOP):
            with pytest.raises(OSError, match="no program can handle"):
                program.add_signal_handler(never, print)
        program.add_signal_handler(signal.SIGHUP, program.write, b"hup\n")
        program.add_signal_handler(signal.SIGUSR2, lambda: 1 / 0)
        await rest(program)

    async def main(system: ActorSystem, last: int) -> tuple[int, list[bytes]]:
        stage = Stage(system, script)
        alias = await stage.begin()
        await asyncio.sleep(1)
        for number in (0, signal.SIGWINCH, signal.SIGCONT, signal.SIGHUP):
            await alias.ask(SendSignal(number))
        await asyncio.sleep(1)
        assert (await alias.inspect("status", "pid")) == {"status": None, "pid": 1}
        with pytest.raises(OSError, match="no signal 1000"):
            await alias.ask(SendSignal(1000))
        alias.tell(SendSignal(last))
        return (await stage.end(alias)).status, stage.lines()

    with capture_logs(quiet=True):
        assert Simulation(seed=1).run(lambda system: main(system, signal.SIGKILL)) == (-9, [b"hup"])
        assert Simulation(seed=1).run(lambda system: main(system, signal.SIGUSR1)) == (-10, [b"hup"])
        assert Simulation(seed=1).run(lambda system: main(system, signal.SIGUSR2)) == (1, [b"hup"])
        with pytest.raises(SimulationRefused, match="SIGSTOP is sent to the program 'prog'"):
            Simulation(seed=1).run(lambda system: main(system, signal.SIGSTOP))


def test_what_a_killed_program_has_written_is_heard_and_what_it_was_about_to_write_is_not() -> None:  # E10
    async def script(program: FakeProgram) -> None:
        program.write(b"one\n")
        program.write(b"two")
        await asyncio.sleep(0.6)
        program.write(b"three\n")  # which takes half a second
        await rest(program)

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script, delay=0.5)
        alias = await stage.begin()
        await asyncio.sleep(1)
        alias.tell(SendSignal(signal.SIGKILL))
        assert await stage.end(alias) == Exited(alias, -9)
        assert stage.lines() == [b"one", b"two"]

    Simulation(seed=1).run(main)


# -- trouble


def test_a_restart_runs_the_script_anew() -> None:  # E10
    runs: list[int] = []

    async def script(program: FakeProgram) -> int:
        runs.append(program.pid)
        program.write(b"run %d\n" % len(runs) + await program.read_line())
        return 1 if len(runs) < 3 else 0

    async def main(system: ActorSystem) -> None:
        stage = Stage(system, script, delay=(0.0, 0.1), split=True)
        alias = await stage.begin(check=True, meta=MetaOptions(supervision=Supervision()))
        for number in range(3):
            await asyncio.sleep(60)
            alias.tell(Write(b"%d" % number))
        await alias.terminated()
        await system.settle()

        assert stage.lines() == [b"run 1", b"0", b"run 2", b"1", b"run 3", b"2"]
        assert [one.status for one in stage.heard if isinstance(one, Exited)] == [1, 1, 0]

    for seed in SEEDS:
        runs.clear()
        with capture_logs(quiet=True):
            Simulation(seed=seed).run(main)
        assert runs == [1, 2, 3]


def test_a_program_without_a_script_is_refused_and_the_error_says_what_to_do() -> None:
    async def main(system: ActorSystem, port: Callable[[], Port]) -> None:
        FakePeer(system).program("other", rest)
        await system.spawn(Owner, port, []).started()

    def refusal(port: Callable[[], Port]) -> str:
        with capture_logs(quiet=True), pytest.raises(SimulationRefused) as caught:
            Simulation(seed=1).run(lambda system: main(system, port))
        return str(caught.value)

    for text, name in (
        (refusal(lambda: Port(["/bin/ls", "-l"])), "'/bin/ls'"),
        (refusal(lambda: Port("ls | wc", shell=True)), "'ls | wc'"),
    ):
        assert f"the program {name} is started inside a simulation" in text
        assert f"FakePeer(system).program({name}, script)" in text


def test_a_command_is_the_name_of_a_program() -> None:
    async def main(system: ActorSystem) -> None:
        for wrong in (["ls"], None):
            with pytest.raises(ConfigError, match="command"):
                FakePeer(system).program(wrong, rest)  # type: ignore[arg-type]

    Simulation(seed=1).run(main)


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
