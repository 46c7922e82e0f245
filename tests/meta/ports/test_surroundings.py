"""`Port`: the environment of a program, what it shows, its signals, and options (E10)."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem
from greenroom.errors import ConfigError
from greenroom.meta import (
    CloseWrite,
    Exited,
    MetaOptions,
    Port,
    SendSignal,
    Write,
)
from tests.meta.owners import Scene
from tests.meta.ports.programs import all_of, end_of, hear, line, number, python, sh, start, text

# -- its surroundings


async def test_it_has_the_environment_of_this_process_and_more(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:  # E10
    monkeypatch.setenv("INHERITED", "1")
    monkeypatch.setenv("CHANGED", "before")
    scene = Scene(system)
    extra = {"CHANGED": "after", "ADDED": "ä b=c"}
    await start(scene, sh('echo "$INHERITED $CHANGED $ADDED"'), extra_environment=extra)
    assert await line(scene) == "1 after ä b=c".encode()
    await end_of(scene)
    assert "ADDED" not in os.environ


async def test_it_may_have_nothing_but_an_environment_of_its_own(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:  # E10
    monkeypatch.setenv("INHERITED", "1")
    scene = Scene(system)
    await start(scene, ["/usr/bin/env"], environment={"ONLY": "this"})
    outputs, _ = await all_of(scene)
    assert text(outputs) == [b"ONLY=this"]
    await start(scene, ["/usr/bin/env"], environment={"ONLY": "this"}, extra_environment={"MORE": "that"})
    outputs, _ = await all_of(scene)
    assert sorted(text(outputs)) == [b"MORE=that", b"ONLY=this"]
    await start(scene, ["/usr/bin/env"], environment={})
    await end_of(scene)


async def test_it_runs_where_it_is_told(system: ActorSystem, tmp_path: Path) -> None:  # E10
    scene = Scene(system)
    before = os.getcwd()  # noqa: PTH109
    for cwd in (tmp_path, str(tmp_path)):
        await start(scene, ["/bin/pwd"], cwd=cwd)
        assert await line(scene) == os.fsencode(tmp_path)
        await end_of(scene)
    assert os.getcwd() == before  # noqa: PTH109


async def test_a_shell_can_run_it(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, "echo $((1 + 1)) | cat; exit 3", shell=True)
    assert await line(scene) == b"2"
    assert await end_of(scene) == Exited(alias, 3)


async def test_words_of_a_command_are_passed_as_they_are(system: ActorSystem, tmp_path: Path) -> None:  # E10
    scene = Scene(system)
    await start(scene, [Path("/usr/bin/printf"), "%s\\n", "$HOME; echo x", "", "a  b", tmp_path])
    outputs, _ = await all_of(scene)
    assert text(outputs) == [b"$HOME; echo x", b"", b"a  b", os.fsencode(tmp_path)]


async def test_it_has_a_session_of_its_own_and_no_other_descriptors(system: ActorSystem, tmp_path: Path) -> None:  # E10
    scene = Scene(system)
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        alias = await start(scene, sh("echo $$; ls /proc/$$/fd; read x"))
        pid = await number(scene)
        assert os.getpgid(pid) == os.getsid(pid) == pid
        assert [await line(scene) for _ in range(3)] == [b"0", b"1", b"2"]
        alias.tell(CloseWrite())
        await end_of(scene)


async def test_a_port_shows_its_program_and_how_much_has_passed(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    command = sh("echo $$; echo bad >&2; exec cat")
    alias = await start(scene, command, MetaOptions(name="cat"))
    first = {(one := await hear(scene)).stream: one.data for _ in range(2)}
    alias.tell(Write(b"four"))
    assert await line(scene) == b"four"
    shown = await alias.inspect(timeout=None)
    pid = int(first["stdout"])
    assert shown == {
        "command": shlex.join(command),
        "pid": pid,
        "status": None,
        "bytes_in": 5,
        "bytes_stdout": len(str(pid)) + 1 + 5,
        "bytes_stderr": 4,
    }
    assert await alias.inspect("pid", "nothing", timeout=None) == {"pid": pid}
    assert alias.name == "cat"


async def test_a_program_gets_signals(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, python(SIGNALS))
    assert await line(scene) == b"ready"
    for sent, name in ((SendSignal(signal.SIGUSR1), "USR1"), (SendSignal(), "TERM"), (SendSignal(1), "HUP")):
        alias.tell(sent)
        assert await line(scene) == f"SIG{name}".encode()
    await alias.ask(SendSignal(signal.SIGKILL), timeout=None)
    assert await end_of(scene) == Exited(alias, -9)


SIGNALS = """
import os, signal
ours = (signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP)
signal.pthread_sigmask(signal.SIG_BLOCK, ours)
os.write(1, b"ready\\n")
while True:
    os.write(1, signal.Signals(signal.sigwait(ours)).name.encode() + b"\\n")
"""


async def test_a_signal_reaches_all_that_the_program_has_started(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    inner = "trap 'echo inner; exit' USR1; echo up; while :; do sleep 0.01; done"
    script = f'trap "wait; exit 5" USR1; sh -c "{inner}" & wait'
    alias = await start(scene, sh(script), stderr="null")
    assert await line(scene) == b"up"
    alias.tell(SendSignal(signal.SIGUSR1))
    assert await line(scene) == b"inner"
    assert await end_of(scene) == Exited(alias, 5)


async def test_many_programs_run_at_once(system: ActorSystem) -> None:  # E10
    scenes = [Scene(system) for _ in range(25)]
    aliases = [await start(scene, ["cat"]) for scene in scenes]
    for turn in range(4):
        for place, alias in enumerate(aliases):
            alias.tell(Write(b"%d of %d" % (turn, place)))
    for place, (scene, alias) in enumerate(zip(scenes, aliases, strict=True)):
        alias.tell(CloseWrite())
        outputs, exited = await all_of(scene)
        assert text(outputs) == [b"%d of %d" % (turn, place) for turn in range(4)]
        assert exited == Exited(alias, 0)


# -- what is refused


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("sort", {}),
        ([], {}),
        ("", {"shell": True}),
        (["sort"], {"shell": True}),
        (["sort"], {"stderr": "file"}),
        (["sort"], {"kill_grace": -1}),
        (["sort"], {"kill_grace": float("inf")}),
        (["sort"], {"kill_grace": float("nan")}),
        (["sort"], {"kill_grace": None}),
        (["sort"], {"high_water": 0}),
        (["sort"], {"framing": 5}),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_where_it_is_given(command: Any, options: Any) -> None:  # E10
    with pytest.raises(ConfigError):
        Port(command, **options)
