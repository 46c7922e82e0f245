"""`LineReader` with `follow`: what is appended, and files that are rotated, cut short or gone for a while (E10)."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, Alias, ExitKind
from greenroom.meta import Closed, Line, LineReader, Rotated
from tests.meta.owners import Ended, Heard, Scene

if TYPE_CHECKING:
    from tests.conftest import Play

OFTEN = 0.005


def append(path: Path, data: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(data)


async def follow(scene: Scene, path: Path, **options: Any) -> Alias:
    return await scene.spawn(LineReader(path, follow=True, interval=OFTEN, **options))


async def expect(scene: Scene, *expected: bytes | type[Rotated]) -> None:
    """The owner hears these lines, and of these rotations, in this order."""
    for one in expected:
        message = await scene.heard()
        if isinstance(one, bytes):
            assert isinstance(message, Line), message
            assert message.data == one
        else:
            assert isinstance(message, Rotated), message


async def test_what_is_appended_comes_when_its_line_is_complete(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "log"
    path.write_bytes(b"old\nhal")
    scene = Scene(system)
    alias = await follow(scene, path)
    await expect(scene, b"old")
    append(path, b"f\n")
    assert await scene.heard() == Line(alias, b"half", 9)
    for turn in range(20):
        append(path, b"%d" % turn)
        append(path, b"\n")
        await expect(scene, b"%d" % turn)
    append(path, b"never ended")
    await system.settle()
    alias.stop()
    assert (await alias.terminated()).kind is ExitKind.NORMAL
    assert not [one for one in scene.probe.messages if isinstance(one, Heard)]


async def test_from_the_end_only_what_is_new_comes(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "log"
    path.write_bytes(b"old\n" * 1000)
    scene = Scene(system)
    alias = await follow(scene, path, start="end")
    append(path, b"new\n")
    assert await scene.heard() == Line(alias, b"new", 4004)
    alias.stop()
    await alias.terminated()
    append(path, b"meanwhile\n")
    again = await follow(scene, path, start=4004)
    assert (await scene.probe.fish(Heard)).message == Line(again, b"meanwhile", 4014)


async def test_a_file_that_is_renamed_is_read_to_its_end_and_then_the_new_one(
    system: ActorSystem, tmp_path: Path
) -> None:  # E10
    path = tmp_path / "log"
    path.write_bytes(b"0\n")
    scene = Scene(system)
    alias = await follow(scene, path)
    await expect(scene, b"0")
    for turn in range(1, 8):
        with path.open("ab", buffering=0) as old:
            path.rename(tmp_path / f"log.{turn}")
            old.write(b"late %d\n" % turn)  # as a program does that has not been told yet
        await expect(scene, b"late %d" % turn)
        path.write_bytes(b"%d\n" % turn)
        assert await scene.heard() == Rotated(alias, str(path))
        assert await scene.heard() == Line(alias, b"%d" % turn, 2)


async def test_a_line_that_a_rotated_file_does_not_end_is_a_line(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "log"
    path.write_bytes(b"one\nunended")
    scene = Scene(system)
    await follow(scene, path)
    await expect(scene, b"one")
    (tmp_path / "new").write_bytes(b"two\n")
    (tmp_path / "new").rename(path)
    await expect(scene, b"unended", Rotated, b"two")


@pytest.mark.parametrize("rest", [b"", b"unended"], ids=["ended", "unended"])
async def test_a_file_that_is_cut_short_begins_anew(system: ActorSystem, tmp_path: Path, rest: bytes) -> None:  # E10
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n" + rest)
    scene = Scene(system)
    alias = await follow(scene, path)
    await expect(scene, b"one", b"two")
    await read_up_to(alias, path)
    os.truncate(path, 0)
    await expect(scene, *([rest] if rest else []), Rotated)
    append(path, b"three\n")
    assert await scene.heard() == Line(alias, b"three", 6)


async def read_up_to(alias: Alias, path: Path) -> None:
    """Return when the reader has had time to read a line that has no end, of which nobody is told."""
    for _ in range(3):
        await alias.inspect(timeout=None)
        await asyncio.sleep(10 * OFTEN)


async def test_a_file_that_is_deleted_and_made_again_is_followed_on(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    scene = Scene(system)
    await follow(scene, path)
    await expect(scene, b"one")
    with path.open("ab", buffering=0) as old:
        path.unlink()
        old.write(b"after\n")
        await expect(scene, b"after")
    path.write_bytes(b"two\n")
    await expect(scene, Rotated, b"two")
    path.unlink()
    path.touch()
    await expect(scene, Rotated)
    append(path, b"three\n")
    await expect(scene, b"three")


async def test_a_folder_may_be_gone_for_a_while_too(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "logs" / "log"
    path.parent.mkdir()
    path.write_bytes(b"one\n")
    scene = Scene(system)
    await follow(scene, path)
    await expect(scene, b"one")
    path.parent.rename(tmp_path / "old")
    append(tmp_path / "old" / "log", b"late\n")
    await expect(scene, b"late")
    path.parent.mkdir()
    path.write_bytes(b"two\n")
    await expect(scene, Rotated, b"two")


async def test_something_else_in_place_of_the_folder_does_not_end_it(
    system: ActorSystem, tmp_path: Path
) -> None:  # E10
    path = tmp_path / "logs" / "log"
    path.parent.mkdir()
    path.write_bytes(b"one\n")
    scene = Scene(system)
    await follow(scene, path)
    await expect(scene, b"one")
    path.parent.rename(tmp_path / "old")
    path.parent.touch()  # a file
    for turn in range(3):
        append(tmp_path / "old" / "log", b"late %d\n" % turn)
        await expect(scene, b"late %d" % turn)
        await asyncio.sleep(5 * OFTEN)  # a few looks at the name
    path.parent.unlink()
    path.parent.mkdir()
    path.write_bytes(b"two\n")
    await expect(scene, Rotated, b"two")


async def test_something_else_in_place_of_the_file_does_not_end_it(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    scene = Scene(system)
    alias = await follow(scene, path)
    await expect(scene, b"one")
    path.rename(tmp_path / "old")
    for make, remove in ((path.mkdir, path.rmdir), (lambda: os.mkfifo(path), path.unlink)):
        make()
        append(tmp_path / "old", b"late\n")
        await expect(scene, b"late")
        await read_up_to(alias, path)  # a few looks at the name
        remove()
    path.write_bytes(b"two\n")
    await expect(scene, Rotated, b"two")


async def test_a_link_that_points_elsewhere_is_another_file(system: ActorSystem, tmp_path: Path) -> None:  # E10
    (tmp_path / "a").write_bytes(b"a\n")
    (tmp_path / "b").write_bytes(b"b\n")
    path = tmp_path / "link"
    path.symlink_to("a")
    scene = Scene(system)
    await follow(scene, path)
    await expect(scene, b"a")
    (tmp_path / "next").symlink_to("b")
    (tmp_path / "next").rename(path)
    await expect(scene, Rotated, b"b")


async def test_it_survives_a_file_that_comes_and_goes_all_the_time(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "log"
    path.write_bytes(b"first\n")

    def churn() -> None:
        for turn in range(1500):
            path.unlink()
            path.write_bytes(b"%d\n" % turn)
        append(path, b"last\n")

    scene = Scene(system)
    alias = await scene.spawn(LineReader(path, follow=True, interval=0.0))
    await expect(scene, b"first")
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        seen = []
        while True:
            message = await scene.probe.receive()
            assert not isinstance(message, Ended), message.cause
            if isinstance(message.message, Line):
                if message.message.data == b"last":
                    break
                seen.append(int(message.message.data))
        assert seen == sorted(set(seen))  # not all of them, but none twice
    finally:
        await asyncio.to_thread(thread.join)
    alias.stop()
    await alias.terminated()


@pytest.mark.parametrize("how", ["stop", "kill", "owner"])
async def test_one_that_waits_for_more_can_be_stopped_at_once(
    system: ActorSystem, tmp_path: Path, how: str
) -> None:  # E10
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    scene = Scene(system)
    alias = await scene.spawn(LineReader(path, follow=True, interval=600.0))
    await expect(scene, b"one")
    {"stop": alias.stop, "kill": alias.kill, "owner": scene.owner.stop}[how]()
    await asyncio.wait_for(alias.terminated(), 45)
    assert not [one for one in scene.probe.messages if isinstance(one, Heard)]


def test_readers_that_are_stopped_at_any_moment_leave_no_descriptor_behind(play: Play, tmp_path: Path) -> None:  # E10
    path = tmp_path / "log"
    path.write_bytes(b"first\n")
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            (tmp_path / "next").write_bytes(b"x\n" * 50)
            (tmp_path / "next").rename(path)

    async def program(system: ActorSystem) -> None:
        random = Random(7)
        scene = Scene(system)
        thread = threading.Thread(target=churn)
        thread.start()
        try:
            for turn in range(60):
                alias = await scene.spawn(LineReader(path, follow=True, interval=0.0))
                for _ in range(random.randrange(30)):
                    await asyncio.sleep(0)
                alias.stop() if turn % 2 else alias.kill()
                await asyncio.wait_for(alias.terminated(), 45)
        finally:
            over.set()
            await asyncio.to_thread(thread.join)
        await system.settle()
        heard = [one.message for one in scene.probe.messages if isinstance(one, Heard)]
        assert not [one for one in heard if isinstance(one, Closed)]

    play(program)
    over.clear()
