"""`Port`: what a program writes and is written to, and its end (E10)."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import ActorSystem, ExitKind
from greenroom.errors import Unhandled
from greenroom.meta import (
    CloseWrite,
    Exited,
    Fixed,
    LengthPrefixed,
    Lines,
    Output,
    Raw,
    Write,
)
from greenroom.testing import TestProbe
from tests.meta.owners import Ended, Scene
from tests.meta.ports.programs import all_of, end_of, line, python, sh, start, text

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
