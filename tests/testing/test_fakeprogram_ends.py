"""`FakePeer.program`: how scripts end, by themselves, by signals and by the seed; and what comes after."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import ActorSystem, Supervision
from greenroom.errors import ConfigError, SimulationRefused
from greenroom.meta import (
    Close,
    Exited,
    MetaOptions,
    Port,
    SendSignal,
    Write,
)
from greenroom.testing import FakePeer, FakeProgram, Simulation, capture_logs
from tests.testing.programs import SEEDS, Owner, Stage, rest

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
