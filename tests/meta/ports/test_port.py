"""`Port`: what a program writes and is written to, its surroundings, and its end or failure (E10)."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem, Alias, Backoff, ExitKind, Supervision
from greenroom.errors import ConfigError, FrameError, FrameTooLarge, ProgramFailed, Unhandled
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
from greenroom.testing import TestProbe
from tests.meta.owners import Ended, Scene
from tests.meta.ports.programs import (
    REST,
    all_of,
    children,
    end_of,
    gone,
    hear,
    is_gone,
    line,
    number,
    python,
    sh,
    start,
    text,
)

LENGTHS = """
import os
def exactly(count):
    got = b""
    while len(got) < count:
        more = os.read(0, count - len(got))
        if not more: raise SystemExit
        got += more
    return got
while True:
    size = exactly(4)
    os.write(1, size + exactly(int.from_bytes(size, "big"))[::-1])
"""


# -- output and input
async def test_lines_go_in_and_come_out(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, ["sort"])
    for word in (b"pear", b"apple", b"", b"fig"):
        alias.tell(Write(word))
    alias.tell(CloseWrite())
    outputs, exited = await all_of(scene)
    assert outputs == [Output(alias, word, "stdout") for word in (b"", b"apple", b"fig", b"pear")]
    assert exited == Exited(alias, 0, None)
    assert (await alias.terminated()).kind is ExitKind.NORMAL
    assert await scene.probe.fish(Ended) == Ended(alias, None)


async def test_messages_come_from_the_port(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)
    scene = Scene(system)
    alias = await start(scene, sh("echo out"), owner=probe.ref)
    await probe.expect(Output(alias, b"out"))
    assert probe.last_sender == alias
    await probe.expect(Exited(alias, 0))
    assert probe.last_sender == alias
    await probe.expect_no()


@pytest.mark.parametrize("written", [b"one\ntwo\n", b"one\ntwo"], ids=["ended", "unended"])
async def test_a_last_line_needs_no_end(system: ActorSystem, written: bytes) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, ["cat"], framing=Raw())
    alias.tell(Write(written))
    alias.tell(CloseWrite())
    outputs, _ = await all_of(scene)
    assert b"".join(text(outputs)) == written
    await start(scene, ["printf", "%b", written.decode()])
    outputs, _ = await all_of(scene)
    assert text(outputs) == [b"one", b"two"]


async def test_raw_output_comes_as_it_is_written(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, ["cat"], framing="raw")
    everything = bytes(range(256)) * 40
    for start_ in range(0, len(everything), 1000):
        alias.tell(Write(everything[start_ : start_ + 1000]))
    alias.tell(CloseWrite())
    outputs, exited = await all_of(scene)
    assert b"".join(text(outputs)) == everything
    assert exited.status == 0


async def test_length_prefixed_frames_go_both_ways(system: ActorSystem) -> None:  # E10
    frames = [b"", b"a", b"\n\x00\xff", b"xyz" * 50_000]
    scene = Scene(system)
    alias = await start(scene, python(LENGTHS), framing=LengthPrefixed())
    for frame in frames:
        await alias.send(Write(frame))
        assert await line(scene) == frame[::-1]
    for frame in frames:
        alias.tell(Write(frame))
    alias.tell(CloseWrite())
    outputs, exited = await all_of(scene)
    assert text(outputs) == [frame[::-1] for frame in frames]
    assert exited == Exited(alias, 0)


async def test_frames_of_one_size_and_frames_of_ones_own(system: ActorSystem) -> None:  # E10
    def digits(data: bytearray) -> list[int]:
        found = [byte - 48 for byte in data]
        data.clear()
        return found

    scene = Scene(system)
    await start(scene, sh("printf 123456"), framing=Fixed(2))
    outputs, _ = await all_of(scene)
    assert text(outputs) == [b"12", b"34", b"56"]
    await start(scene, sh("printf 123456"), framing=digits)
    outputs, _ = await all_of(scene)
    assert text(outputs) == [1, 2, 3, 4, 5, 6]


async def test_lines_may_be_text_and_have_another_end(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, ["cat"], framing=Lines(b"\0", encoding="utf-8"))
    alias.tell(Write("grün\nund blau"))
    assert await line(scene) == "grün\nund blau"
    alias.tell(CloseWrite())
    await end_of(scene)


async def test_much_output_is_all_there_and_in_order(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    await start(scene, ["seq", "20000"])
    outputs, exited = await all_of(scene)
    assert text(outputs) == [str(one).encode() for one in range(1, 20_001)]
    assert exited.status == 0


async def test_the_number_of_bytes_is_the_answer_to_a_write(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, ["cat"])
    assert await alias.ask(Write(b"abc"), timeout=None) == 4
    assert await line(scene) == b"abc"
    assert await alias.ask(CloseWrite(), timeout=None) is None
    await end_of(scene)


async def test_what_a_port_does_not_know_is_unhandled(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, ["cat"])
    with pytest.raises(Unhandled):
        await alias.ask("what?", timeout=None)
    alias.tell(Write(b"still here"))
    assert await line(scene) == b"still here"


# -- errors
async def test_errors_are_outputs_of_their_own(system: ActorSystem) -> None:  # E10
    script = "echo out; echo bad >&2; printf worse >&2"
    scene = Scene(system)
    alias = await start(scene, sh(script), framing=Raw())
    outputs, _ = await all_of(scene)
    assert b"".join(text(outputs)) == b"out\n"
    assert [one for one in outputs if one.stream == "stderr"] == [
        Output(alias, b"bad", "stderr"),
        Output(alias, b"worse", "stderr"),
    ]


@pytest.mark.parametrize(("stderr", "expected"), [("stdout", [b"one", b"two", b"three"]), ("null", [b"one", b"three"])])
async def test_errors_can_be_joined_with_the_output_or_dropped(
    system: ActorSystem, stderr: str, expected: Any
) -> None:  # E10
    scene = Scene(system)
    await start(scene, sh("echo one; echo two >&2; echo three"), stderr=stderr)
    outputs, exited = await all_of(scene)
    assert text(outputs) == expected
    assert text(outputs, "stderr") == []
    assert exited.status == 0


async def test_errors_can_go_where_those_of_this_process_go(
    system: ActorSystem, capfd: pytest.CaptureFixture[str]
) -> None:  # E10
    scene = Scene(system)
    await start(scene, sh("echo shown >&2"), stderr="inherit")
    await end_of(scene)
    assert "shown\n" in capfd.readouterr().err


# -- the exit status
@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", -9), ("kill -15 $$", -15)],
)
async def test_the_status_says_how_it_ended(system: ActorSystem, script: str, status: int) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, sh(script))
    assert await end_of(scene) == Exited(alias, status, None)
    assert (await alias.terminated()).kind is ExitKind.NORMAL  # it is no failure, unless `check` says so


async def test_the_end_comes_after_the_last_output_of_either_stream(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    for _ in range(20):
        await start(scene, sh("seq 500; seq 500 >&2; printf last; printf last >&2"))
        outputs, exited = await all_of(scene)
        expected = [str(one).encode() for one in range(1, 501)] + [b"last"]
        assert text(outputs) == text(outputs, "stderr") == expected
        assert exited.status == 0


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


# -- output that is no frame
NO_FRAMES: dict[str, tuple[str, Any, type[Exception], list[bytes]]] = {
    "a line too long": ("echo ok; printf %02000d 1", Lines(max_size=1000), FrameTooLarge, [b"ok"]),
    "a length too large": (r"printf '\0\0\0\1a\377\377\377\377'", LengthPrefixed(), FrameTooLarge, [b"a"]),
    "a length cut short": (r"printf '\0\0\0\1a\0\0'; exit 0", LengthPrefixed(), FrameError, [b"a"]),
    "a frame cut short": (r"printf '\0\0\0\1a\0\0\0\11bcd'; exit 0", LengthPrefixed(), FrameError, [b"a"]),
    "a piece too short": ("printf abcde; exit 0", Fixed(2), FrameError, [b"ab", b"cd"]),
    "no such text": (r"echo ok; printf '\377\n'", Lines(encoding="utf-8"), FrameError, ["ok"]),  # type: ignore[list-item]
}


@pytest.mark.parametrize(("script", "framing", "error", "before"), NO_FRAMES.values(), ids=NO_FRAMES)
async def test_output_that_is_no_frame_ends_the_program_with_a_clear_error(  # E10
    system: ActorSystem, script: str, framing: Any, error: type[Exception], before: list[Any]
) -> None:
    scene = Scene(system)
    alias = await start(scene, sh(f"{script}; {REST}"), framing=framing)
    pid = (await alias.inspect("pid", timeout=None))["pid"]
    outputs, exited = await all_of(scene)
    assert text(outputs) == before
    assert type(exited.error) is error
    assert exited.status == (0 if script.endswith("exit 0") else -15)
    assert (await alias.terminated()).kind is ExitKind.NORMAL
    assert is_gone(pid)


async def test_a_program_whose_output_is_no_frame_is_killed_if_it_does_not_end_when_asked(
    system: ActorSystem,
) -> None:  # E10
    scene = Scene(system)
    script = f"trap '' TERM; echo $$; printf %02000d 1; {REST}"
    alias = await start(scene, sh(script), framing=Lines(max_size=1000), kill_grace=0.05)
    pid = await number(scene)
    await gone(pid)
    exited = await end_of(scene)
    assert exited.status == -9
    assert isinstance(exited.error, FrameTooLarge)
    await alias.terminated()


async def test_a_framing_that_raises_ends_the_program_and_nothing_else(system: ActorSystem) -> None:  # E10
    def broken(data: bytearray) -> list[bytes]:
        raise ZeroDivisionError

    scene = Scene(system)
    await start(scene, sh(f"echo hello; {REST}"), framing=broken)
    exited = await end_of(scene)
    assert isinstance(exited.error, ZeroDivisionError)
    await start(scene, sh("echo fine"))
    assert await hear(scene)
    await end_of(scene)


# -- programs that cannot be started
@pytest.mark.parametrize(
    ("command", "options", "error"),
    [
        (["/no/such/program"], {}, FileNotFoundError),
        (["no-such-program-anywhere"], {}, FileNotFoundError),
        (["/dev/null"], {}, PermissionError),
        (["cat"], {"cwd": "/no/such/folder"}, FileNotFoundError),
        (["cat"], {"cwd": "/dev/null"}, NotADirectoryError),
        (["cat", "x" * 5_000_000], {}, OSError),
    ],
    ids=["path", "name", "no program", "cwd", "no folder", "too long"],
)
async def test_a_program_that_cannot_be_started_is_an_error_of_its_spawn(  # E10
    system: ActorSystem, command: Any, options: Any, error: type[Exception]
) -> None:
    scene = Scene(system)
    before = children()
    for _ in range(3):
        with pytest.raises(error):
            await scene.do(lambda ctx: ctx.spawn_meta(Port(command, **options), MetaOptions(name="port")))
    assert children() == before
    assert await scene.do(lambda ctx: ctx.children) == []
    alias = await start(scene, ["cat"], MetaOptions(name="port"))  # the name is free
    alias.tell(CloseWrite())
    assert await end_of(scene) == Exited(alias, 0)


async def test_a_signal_that_there_is_not_leaves_nothing_behind(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    for number_ in (999, -1, "TERM"):
        alias = await start(scene, ["cat"])
        with pytest.raises((OSError, TypeError, ValueError)):
            await alias.ask(SendSignal(number_), timeout=None)  # type: ignore[arg-type]
        alias.tell(Write(b"still here"))
        assert await line(scene) == b"still here"
        alias.stop()
        await end_of(scene)


FAMILY = f'sh -c "{REST.replace("$", chr(92) + "$")}" & echo $!; echo $$; {REST}'
"""A program that has started another: the number of that, and its own."""


# -- supervision
async def test_a_program_that_fails_is_started_again(system: ActorSystem, tmp_path: Path) -> None:  # E10
    script = 'echo x >> count; echo "life $(wc -l < count)"; [ $(wc -l < count) -ge 3 ] || exit 9; read -r x; echo "$x"'

    (tmp_path / "count").touch()
    scene = Scene(system)
    restarts = MetaOptions(supervision=Supervision(max_restarts=5, within=1000.0, backoff=Backoff(0.001, 0.01)))
    alias: Alias = await scene.do(
        lambda ctx: ctx.spawn_meta(lambda: Port(sh(script), check=True, cwd=tmp_path), restarts)
    )
    for life in (1, 2):
        assert await hear(scene) == Output(alias, b"life %d" % life)
        assert await hear(scene) == Exited(alias, 9)
    assert await hear(scene) == Output(alias, b"life 3")
    alias.tell(Write(b"to the third"))
    assert await hear(scene) == Output(alias, b"to the third")
    assert await end_of(scene) == Exited(alias, 0)
    assert (await alias.terminated()).kind is ExitKind.NORMAL
    assert (tmp_path / "count").read_text() == "x\n" * 3


async def test_a_program_that_keeps_failing_is_given_up(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    twice = MetaOptions(supervision=Supervision(max_restarts=2, within=1000.0, backoff=None))
    alias: Alias = await scene.do(lambda ctx: ctx.spawn_meta(lambda: Port(sh("kill -9 $$"), check=True), twice))
    assert [await hear(scene) for _ in range(3)] == [Exited(alias, -9)] * 3
    reason = await alias.terminated()
    assert reason.kind is ExitKind.FAIL
    await system.settle()


async def test_a_restart_takes_the_whole_group_of_the_former_life_along(system: ActorSystem) -> None:  # E10
    script = f"{FAMILY.rpartition('; while')[0]}; read -r x; exit 1"
    scene = Scene(system)
    once = MetaOptions(supervision=Supervision(max_restarts=5, within=1000.0, backoff=None))
    alias: Alias = await scene.do(lambda ctx: ctx.spawn_meta(lambda: Port(sh(script), check=True), once))
    first = [await number(scene) for _ in range(2)]
    alias.tell(Write(b"fail"))
    assert await hear(scene) == Exited(alias, 1)
    second = [await number(scene) for _ in range(2)]
    await gone(*first)
    assert not any(map(is_gone, second))
    alias.stop()
    assert await end_of(scene) == Exited(alias, -15)
    await gone(*second)


@pytest.mark.parametrize(("script", "status"), [("exit 2", 2), ("kill -15 $$", -15)])
async def test_with_check_a_status_other_than_0_is_a_failure(
    system: ActorSystem, script: str, status: int
) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, sh(script), check=True)
    assert await hear(scene) == Exited(alias, status)
    ended = await scene.probe.expect(Ended)
    assert isinstance(ended.cause, ProgramFailed)
    assert ended.cause.status == status
    assert script in str(ended.cause)
    reason = await alias.terminated()
    assert reason.kind is ExitKind.FAIL
    assert reason.cause is ended.cause


async def test_with_check_a_program_that_ends_well_or_is_stopped_is_no_failure(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, ["cat"], check=True)
    alias.tell(CloseWrite())
    assert await hear(scene) == Exited(alias, 0)
    assert await scene.probe.expect(Ended) == Ended(alias, None)
    alias = await start(scene, ["cat"], check=True)
    alias.tell(Close())
    assert await hear(scene) == Exited(alias, -15)
    assert await scene.probe.expect(Ended) == Ended(alias, None)
    assert (await alias.terminated()).kind is ExitKind.NORMAL
