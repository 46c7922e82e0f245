"""`LineReader`: the lines of files and FIFOs, from wherever one begins (E10)."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem, Alias, ExitKind, MailboxConfig
from greenroom.errors import ConfigError
from greenroom.meta import Closed, Line, LineReader, MetaOptions
from greenroom.testing import TestProbe
from tests.meta.owners import AsyncOwner, Ended, Heard, Scene

LIMIT = 45.0
"""Seconds that what is at once may take on the busiest of machines."""


async def lines_of(scene: Scene, path: Path, **options: Any) -> list[Line]:
    """All lines of a file, until its end."""
    alias = await scene.spawn(LineReader(path, **options))
    found = []
    while isinstance(message := (await scene.probe.fish(Heard)).message, Line):
        assert message.alias == alias
        found.append(message)
    assert message == Closed(alias, "eof")
    assert (await alias.terminated()).kind is ExitKind.NORMAL
    return found


def data_of(lines: list[Line]) -> list[Any]:
    return [line.data for line in lines]


# -- files


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"\n", [b""]),
        (b"\n\nx\n\n", [b"", b"", b"x", b""]),
        (b"\x00\xff\r\n", [b"\x00\xff\r"]),
    ],
    ids=["empty", "ended", "unended", "blank", "blanks", "bytes"],
)
async def test_the_lines_of_a_file_come_one_by_one(
    system: ActorSystem, tmp_path: Path, content: bytes, expected: Any
) -> None:  # E10
    path = tmp_path / "file"
    path.write_bytes(content)
    scene = Scene(system)
    found = await lines_of(scene, path)
    assert data_of(found) == expected
    assert not found or found[-1].position == len(content)


async def test_many_lines_come_in_order(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "file"
    expected = [b"%d " % one + b"x" * (one % 50) for one in range(20_000)]
    path.write_bytes(b"\n".join(expected))
    scene = Scene(system)
    assert data_of(await lines_of(scene, path)) == expected


async def test_a_position_is_where_the_next_line_begins(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "file"
    content = "ä\n\nlong line\nend".encode()
    path.write_bytes(content)
    scene = Scene(system)
    found = await lines_of(scene, path, encoding="utf-8")
    assert data_of(found) == ["ä", "", "long line", "end"]
    assert [one.position for one in found] == [3, 4, 14, 17]
    for place, one in enumerate(found):
        rest = await lines_of(scene, path, start=one.position, encoding="utf-8")
        assert data_of(rest) == data_of(found[place + 1 :])
        assert [two.position for two in rest] == [two.position for two in found[place + 1 :]]


@pytest.mark.parametrize(
    ("start", "expected"),
    [("beginning", [b"one", b"two"]), ("end", []), (0, [b"one", b"two"]), (2, [b"e", b"two"]), (1000, [])],
)
async def test_one_can_begin_anywhere(system: ActorSystem, tmp_path: Path, start: Any, expected: Any) -> None:  # E10
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\n")
    scene = Scene(system)
    assert data_of(await lines_of(scene, path, start=start)) == expected


@pytest.mark.parametrize(
    ("content", "encoding", "expected"),
    [
        ("grün\n€\n".encode(), "utf-8", ["grün", "€"]),
        (b"gr\xfcn\n", "latin-1", ["grün"]),
        (b"gr\xfcn\nfine\n\xe2\x82", "utf-8", ["gr�n", "fine", "�"]),
        (b"a\xffb\n", "ascii", ["a�b"]),
    ],
    ids=["utf-8", "latin-1", "broken", "ascii"],
)
async def test_lines_can_be_text(
    system: ActorSystem, tmp_path: Path, content: bytes, encoding: str, expected: Any
) -> None:  # E10
    path = tmp_path / "file"
    path.write_bytes(content)
    scene = Scene(system)
    assert data_of(await lines_of(scene, path, encoding=encoding)) == expected


@pytest.mark.parametrize("size", [10, 99, 100, 101, 250, 200_000])
async def test_a_line_that_is_too_long_comes_in_pieces(system: ActorSystem, tmp_path: Path, size: int) -> None:  # E10
    path = tmp_path / "file"
    long = (b"0123456789" * (size // 10 + 1))[:size]
    content = b"first\n" + long + b"\nlast\n"
    path.write_bytes(content)
    scene = Scene(system)
    found = await lines_of(scene, path, max_size=100)
    assert max(len(one.data) for one in found) <= 100
    assert found[0].data == b"first"
    assert found[-1].data == b"last"
    assert b"".join(data_of(found[1:-1])) == long
    assert found[-1].position == len(content)
    for one in found:  # wherever one goes on, nothing is lost or told twice
        rest = await lines_of(scene, path, max_size=100, start=one.position) if size <= 250 else []
        assert size > 250 or b"".join(data_of(rest)) == content[one.position :].replace(b"\n", b"")


async def test_a_reader_shows_how_far_it_is(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\nunended")
    scene = Scene(system)
    alias = await scene.spawn(LineReader(path, follow=True), MetaOptions(name="reader"))
    assert [line.data for line in await scene.all_heard(2)] == [b"one", b"two"]
    expected = {"path": str(path), "position": 8, "lines": 2, "follow": True}
    assert await alias.inspect(timeout=None) == expected
    assert await alias.inspect("lines", timeout=None) == {"lines": 2}
    assert alias.name == "reader"


async def test_somebody_else_can_be_told(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    probe = TestProbe(system)
    scene = Scene(system)
    alias = await scene.spawn(LineReader(str(path), owner=probe.ref))
    await probe.expect(Line(alias, b"one", 4))
    await probe.expect(Closed(alias, "eof"))
    await alias.terminated()
    assert await scene.probe.expect(Ended) == Ended(alias, None)


@pytest.mark.parametrize("kind", ["file", "fifo"])
async def test_it_ends_with_who_is_told(system: ActorSystem, tmp_path: Path, kind: str) -> None:  # E10
    path = tmp_path / "file"
    if kind == "file":
        path.write_bytes(b"one\n")
    else:
        os.mkfifo(path)
    probe = TestProbe(system)
    alias = await Scene(system).spawn(LineReader(path, owner=probe.ref, follow=True))
    await alias.started()
    probe.ref.stop()
    await alias.terminated()


async def test_a_file_that_is_not_there_is_an_error_of_its_spawn(system: ActorSystem, tmp_path: Path) -> None:  # E10
    scene = Scene(system)
    for follow in (False, True):
        with pytest.raises(FileNotFoundError):
            await scene.spawn(LineReader(tmp_path / "none", follow=follow))
    assert await scene.do(lambda ctx: ctx.children) == []


async def test_a_folder_is_no_file(system: ActorSystem, tmp_path: Path) -> None:  # E10
    scene = Scene(system)
    cause: BaseException | None = None
    try:
        await scene.do(lambda ctx: ctx.spawn_meta(LineReader(tmp_path)))
    except OSError as exc:  # better known at once than later
        cause = exc
    else:
        cause = (await scene.probe.expect(Ended)).cause
    assert isinstance(cause, IsADirectoryError)


@pytest.mark.parametrize(
    "options",
    [{"start": "middle"}, {"start": -1}, {"start": True}, {"start": 1.5}, {"max_size": 0}, {"interval": -1}],
)
def test_an_option_that_makes_no_sense_is_refused_where_it_is_given(options: Any) -> None:  # E10
    with pytest.raises(ConfigError):
        LineReader("file", **options)


def test_an_unknown_encoding_is_refused_where_it_is_given() -> None:  # E10
    with pytest.raises(ConfigError, match="no-such"):
        LineReader("file", encoding="no-such")


# -- an owner that is busy


async def told(alias: Alias, lines: int) -> None:
    """Return when a reader is about to tell its owner so many lines: nobody is told of that."""
    while (await alias.inspect("lines", timeout=None))["lines"] < lines:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_it_waits_for_an_owner_whose_mailbox_is_full(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "file"
    path.write_bytes(b"".join(b"%d\n" % one for one in range(3000)))
    scene, busy = Scene(system), Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=3))
    gate = busy.hold()
    alias = await scene.spawn(LineReader(path, owner=busy.owner))
    await told(alias, 4)
    assert (await alias.inspect("lines", timeout=None))["lines"] <= 5
    gate.set_result(None)
    messages = await busy.all_heard(3001)
    assert [one.data for one in messages[:-1]] == [b"%d" % one for one in range(3000)]
    assert messages[-1] == Closed(alias, "eof")
    assert system.dead_letters.count == 0


@pytest.mark.parametrize("whom", ["reader", "owner", "parent"])
@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_one_that_waits_for_room_can_be_ended(
    system: ActorSystem, tmp_path: Path, whom: str, how: str
) -> None:  # E10
    path = tmp_path / "file"
    path.write_bytes(b"x\n" * 100)
    scene, busy = Scene(system), Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=3))
    gate = busy.hold()
    alias = await scene.spawn(LineReader(path, owner=busy.owner))
    await told(alias, 4)
    ref: Any = {"reader": alias, "owner": busy.owner, "parent": scene.owner}[whom]
    ref.stop() if how == "stop" else ref.kill()
    if whom == "owner":
        gate.set_result(None)
    await asyncio.wait_for(alias.terminated(), LIMIT)
    if whom != "owner":
        gate.set_result(None)
    await system.settle()


# -- FIFOs


def write_fifo(path: Path, *pieces: bytes) -> threading.Thread:
    """Another one writes to a FIFO, which it opens and closes for each piece."""

    def write() -> None:
        for piece in pieces:
            with path.open("wb", buffering=0) as file:
                file.write(piece)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


async def test_a_fifo_is_read_until_its_last_writer_has_gone(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "fifo"
    os.mkfifo(path)
    scene = Scene(system)
    alias = await scene.spawn(LineReader(path, interval=0.01))
    with path.open("wb", buffering=0) as one, path.open("wb", buffering=0) as two:
        one.write(b"from one\nhal")
        assert (await scene.heard()).data == b"from one"
        one.close()
        two.write(b"f from two\nunended")
        assert (await scene.heard()).data == b"half from two"
    assert (await scene.heard()).data == b"unended"
    assert await scene.heard() == Closed(alias, "eof")


async def test_a_fifo_that_is_followed_waits_for_its_next_writer(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "fifo"
    os.mkfifo(path)
    scene = Scene(system)
    alias = await scene.spawn(LineReader(path, follow=True, interval=0.01))
    for turn in range(5):
        thread = write_fifo(path, b"%d\n" % turn)
        assert (await scene.heard()).data == b"%d" % turn
        await asyncio.to_thread(thread.join)
    threads = [write_fifo(path, *(b"%d %d\n" % (who, turn) for turn in range(50))) for who in range(4)]
    found = [(await scene.heard()).data.split() for _ in range(200)]
    for who in range(4):
        assert [int(turn) for writer, turn in found if int(writer) == who] == list(range(50))
    for thread in threads:
        await asyncio.to_thread(thread.join)
    alias.stop()
    assert (await alias.terminated()).kind is ExitKind.NORMAL


@pytest.mark.parametrize("interval", [0.05, 600.0], ids=["often", "seldom"])
@pytest.mark.parametrize("follow", [False, True])
async def test_one_that_waits_for_a_writer_can_be_stopped(  # E10
    system: ActorSystem, tmp_path: Path, follow: bool, interval: float
) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    scene = Scene(system)
    alias = await scene.spawn(LineReader(path, follow=follow, interval=interval))
    alias.stop()
    try:
        await asyncio.wait_for(alias.terminated(), 120)
    finally:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        os.write(fd, b"wake\n")
        os.close(fd)
