"""`Port`: more than the owner takes, and more than the program takes (E10)."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem, Alias, ExitKind, Lane, MailboxConfig
from greenroom.errors import ConnectionClosed, FrameError, MailboxFull, SendTimeout
from greenroom.meta import Close, CloseWrite, Exited, Fixed, Lines, MetaOptions, Raw, SendSignal, Write
from tests.gates import turns
from tests.meta.owners import AsyncOwner, Scene
from tests.meta.ports.programs import (
    LIMIT,
    REST,
    all_of,
    end_of,
    gone,
    is_gone,
    line,
    number,
    python,
    sh,
    start,
    steady,
    text,
)

SMALL = MailboxConfig(capacity=4)
PIECE = b"x" * 100_000
READS_LATER = """
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.write(1, b"%d\\n" % os.getpid())
signal.sigwait([signal.SIGUSR1])
total = 0
while chunk := os.read(0, 1 << 16):
    total += len(chunk)
os.write(1, b"%d\\n" % total)
"""
"""Does not read its input before it has had a signal; then says how much there was."""


class Busy(AsyncOwner):
    """An owner that handles nothing more when it is told so, until its gate is open."""


# -- a program that writes more than its owner takes


async def test_a_flood_is_held_up_while_the_owner_is_busy_and_nothing_is_lost(
    system: ActorSystem, tmp_path: Path
) -> None:  # E10
    mark = tmp_path / "mark"
    scene = Scene(system, Busy, mailbox=SMALL)
    alias = await start(scene, sh(f"read -r x; seq -f %0100g 30000; : > {mark}"))
    gate = scene.hold()
    alias.tell(Write(b"go"))
    assert await steady(alias, "bytes_stdout") < 1_000_000  # of three million
    assert not mark.exists()
    gate.set_result(None)
    outputs, exited = await all_of(scene)
    assert text(outputs) == [b"%0100d" % one for one in range(1, 30_001)]
    assert exited == Exited(alias, 0)
    assert mark.exists()
    mark.unlink()
    assert system.dead_letters.count == 0


async def test_what_a_program_has_written_is_not_lost_because_it_ends_before_its_owner_has_room(
    system: ActorSystem,
) -> None:  # E10
    scene = Scene(system, Busy, mailbox=SMALL)
    alias = await start(scene, sh("read -r x; seq 9000; seq 9000 >&2; printf last"))
    pid = (await alias.inspect("pid", timeout=None))["pid"]
    gate = scene.hold()
    alias.tell(Write(b"go"))
    await gone(pid)
    ended = asyncio.ensure_future(alias.terminated())
    await asyncio.wait([ended], timeout=1.5)  # the owner has all the time in the world
    gate.set_result(None)
    outputs, exited = await all_of(scene)
    expected = [str(one).encode() for one in range(1, 9001)]
    assert text(outputs) == [*expected, b"last"]
    assert text(outputs, "stderr") == expected
    assert exited == Exited(alias, 0)
    await ended
    assert system.dead_letters.count == 0


async def test_a_few_lines_and_the_end_wait_for_room_too(system: ActorSystem) -> None:  # E10
    scene = Scene(system, Busy, mailbox=MailboxConfig(capacity=1))
    alias = await start(scene, sh("read -r x; seq 10; exit 3"))
    pid = (await alias.inspect("pid", timeout=None))["pid"]
    gate = scene.hold()
    alias.tell(Write(b"go"))
    await gone(pid)
    await turns(50)
    gate.set_result(None)
    outputs, exited = await all_of(scene)
    assert text(outputs) == [str(one).encode() for one in range(1, 11)]
    assert exited == Exited(alias, 3)


@pytest.mark.parametrize("whom", ["port", "owner"])
@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_flood_that_is_held_up_can_be_ended(system: ActorSystem, whom: str, how: str) -> None:  # E10
    scene = Scene(system, Busy, mailbox=SMALL)
    alias = await start(scene, sh("read -r x; exec yes $(printf %0200d 0)"))
    pid = (await alias.inspect("pid", timeout=None))["pid"]
    gate = scene.hold()
    alias.tell(Write(b"go"))
    await steady(alias, "bytes_stdout")
    ref: Any = alias if whom == "port" else scene.owner
    ref.stop() if how == "stop" else ref.kill()
    if whom == "owner":
        gate.set_result(None)
    await asyncio.wait_for(alias.terminated(), LIMIT)
    assert is_gone(pid)
    if whom == "port":
        gate.set_result(None)
    await system.settle()


async def test_the_errors_of_a_program_are_held_up_too(system: ActorSystem) -> None:  # E10
    scene = Scene(system, Busy, mailbox=SMALL)
    alias = await start(scene, sh("read -r x; seq -f %0100g 10000 >&2"))
    gate = scene.hold()
    alias.tell(Write(b"go"))
    assert await steady(alias, "bytes_stderr") < 600_000
    gate.set_result(None)
    outputs, exited = await all_of(scene)
    assert text(outputs, "stderr") == [b"%0100d" % one for one in range(1, 10_001)]
    assert exited.status == 0


# -- a program that does not read


def fill(alias: Alias) -> None:
    for _ in range(10):
        alias.tell(Write(PIECE))


async def stall(scene: Scene, pieces: int = 4, **options: Any) -> tuple[Alias, int]:
    """A port whose mailbox is full, for its program does not read."""
    alias = await start(scene, python(READS_LATER), MetaOptions(mailbox=SMALL), framing=Raw(), **options)
    pid = await number(scene)
    alias.tell(Write(PIECE))
    alias.tell(Write(PIECE))
    await turns(50)
    for _ in range(pieces):
        try:
            alias.tell(Write(PIECE))
        except MailboxFull:
            return alias, pid
    return alias, pid


async def test_a_program_that_does_not_read_holds_up_who_writes_to_it(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias, _ = await stall(scene, pieces=3)
    with pytest.raises(MailboxFull):
        fill(alias)
    with pytest.raises(SendTimeout):
        await alias.send(Write(PIECE), timeout=0.05)
    waiting = asyncio.create_task(alias.send(Write(PIECE)))
    await turns(50)
    assert not waiting.done()
    bytes_in = (await alias.inspect("bytes_in", timeout=LIMIT))["bytes_in"]
    assert bytes_in <= 200_000
    alias.stop()
    await alias.terminated()
    await waiting


async def test_when_it_reads_on_all_of_it_comes_and_in_order(system: ActorSystem) -> None:  # E10
    script = READS_LATER.replace("total += len(chunk)", "os.write(1, chunk)")
    scene = Scene(system)
    alias = await start(scene, python(script), MetaOptions(mailbox=SMALL), high_water=1000)
    pid = await number(scene)
    lines = [b"%d " % one + b"y" * 10_000 for one in range(60)]

    async def write() -> None:
        for one in lines:
            await alias.send(Write(one))
        await alias.send(CloseWrite())

    writing = asyncio.create_task(write())
    await turns(50)
    assert not writing.done()
    signal.pidfd_send_signal(fd := os.pidfd_open(pid), signal.SIGUSR1)
    os.close(fd)
    outputs, exited = await all_of(scene)
    assert text(outputs) == [*lines, b"0"]
    assert exited == Exited(alias, 0)
    await writing


@pytest.mark.parametrize("end", ["stop", "kill", "owner", "owner killed"])
async def test_a_program_that_does_not_read_can_be_stopped_at_once(system: ActorSystem, end: str) -> None:  # E10
    scene = Scene(system)
    alias, pid = await stall(scene)
    {"stop": alias.stop, "kill": alias.kill, "owner": scene.owner.stop, "owner killed": scene.owner.kill}[end]()
    await asyncio.wait_for(alias.terminated(), LIMIT)
    assert is_gone(pid)
    await system.settle()


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_it_can_be_stopped_at_once_though_somebody_waits_for_the_answer_to_a_write(
    system: ActorSystem, how: str
) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, python(READS_LATER), framing=Raw())
    pid = await number(scene)
    asked = asyncio.ensure_future(alias.ask(Write(PIECE * 3), timeout=None))
    await turns()
    assert not asked.done()
    alias.stop() if how == "stop" else alias.kill()
    try:
        await asyncio.wait_for(alias.terminated(), 120)
        assert is_gone(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with pytest.raises(Exception):  # noqa: B017 - whichever: it is told
        await asked


async def test_a_program_that_does_not_read_still_gets_signals(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, python(READS_LATER), framing=Raw())
    pid = await number(scene)
    alias.tell(Write(PIECE * 3))
    await turns(50)
    alias.tell(SendSignal(signal.SIGUSR1), lane=Lane.CONTROL)
    try:
        await asyncio.wait_for(alias.ask(CloseWrite(), timeout=None), 120)
    finally:
        os.kill(pid, signal.SIGUSR1)
    outputs, exited = await all_of(scene)
    assert b"".join(text(outputs)).strip() == b"300000"
    assert exited == Exited(alias, 0)


async def test_a_program_that_does_not_read_can_be_aborted(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, python(READS_LATER), framing=Raw())
    pid = await number(scene)
    alias.tell(Write(PIECE * 3))
    await turns(50)
    alias.tell(Close(abort=True), lane=Lane.CONTROL)
    try:
        await asyncio.wait_for(alias.terminated(), 120)
        assert is_gone(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def test_a_write_to_a_program_that_has_closed_its_input_is_refused(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, sh(f"exec 0<&-; echo closed; {REST}"))
    assert await line(scene) == b"closed"
    with pytest.raises(ConnectionClosed):  # it may take a while until that is known here
        [await alias.ask(Write(PIECE), timeout=None) for _ in range(1000)]
    known = system.dead_letters.count
    alias.tell(Write(b"lost"))
    await system.settle()
    assert system.dead_letters.count == known + 1
    alias.tell(CloseWrite())
    alias.tell(SendSignal(signal.SIGKILL))
    assert await end_of(scene) == Exited(alias, -9)


async def test_writes_that_wait_when_the_program_ends_do_no_harm(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias, pid = await stall(scene)
    asked = asyncio.ensure_future(alias.ask(Write(PIECE), timeout=None, wait_for_room=True))
    await turns(50)
    os.kill(pid, signal.SIGKILL)
    assert await end_of(scene) == Exited(alias, -9)
    assert (await alias.terminated()).kind is ExitKind.NORMAL
    with pytest.raises(Exception):  # noqa: B017 - the port has ended, or the program reads no more
        await asked


@pytest.mark.parametrize(("framing", "data"), [(None, "text"), (Fixed(3), b"four"), (Lines(), 5)])
async def test_what_cannot_be_written_is_a_dead_letter_and_the_program_runs_on(
    system: ActorSystem, framing: Any, data: Any
) -> None:
    scene = Scene(system)
    alias = await start(scene, ["cat"], framing=framing)
    alias.tell(Write(data))
    with pytest.raises((TypeError, FrameError)):
        await alias.ask(Write(data), timeout=None)
    assert system.dead_letters.count == 1
    assert await alias.ask(Write(b"abc"), timeout=None) in (3, 4)
    assert await line(scene) == b"abc"


async def test_after_the_end_of_its_input_a_program_cannot_be_written_to(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, sh(f"cat; echo over; {REST}"))
    alias.tell(Write(b"before"))
    alias.tell(CloseWrite())
    with pytest.raises(ConnectionClosed):
        await alias.ask(Write(b"after"), timeout=None)
    alias.tell(CloseWrite())
    assert [await line(scene), await line(scene)] == [b"before", b"over"]
