"""`Port`: no process outlives who started it, at whichever moment that ends, and however (E10, J12)."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, Alias, MailboxConfig, MailboxFull
from greenroom.errors import ActorTerminated
from greenroom.meta import CloseWrite, Exited, Port, Raw, Write
from tests.gates import Gate
from tests.meta.owners import Held, Scene
from tests.meta.ports.programs import (
    LIMIT,
    all_of,
    children,
    end_of,
    gone,
    hear,
    is_gone,
    line,
    number,
    sh,
    start,
    text,
)

if TYPE_CHECKING:
    from tests.conftest import Play

# -- the death of this Python

SCRIPT = """
import asyncio, sys
from greenroom import Actor, ActorSystem
from greenroom.meta import Output, Port

class Owner(Actor):
    def pre_start(self):
        for script in sys.argv[2:]:
            self.ctx.spawn_meta(Port(["/bin/sh", "-c", script]))
    def receive(self, message):
        if isinstance(message, Output):
            print(message.data.decode(), flush=True)

async def main():
    async with ActorSystem() as system:
        system.spawn(Owner)
        await asyncio.Event().wait()

if sys.argv[1] == "uvloop":
    import uvloop
    uvloop.run(main())
elif sys.argv[1] == "thread":
    import time
    with ActorSystem() as system:
        system.spawn(Owner)
        while True: time.sleep(1000)
else:
    asyncio.run(main())
"""
REST = "while :; do sleep 1000 & wait $!; done"
INNER = REST.replace("$", "\\$")
FAMILY = f'sh -c "{INNER}" & echo $! $$; {REST}'
OBSTINATE = f"trap '' TERM HUP INT PIPE; {FAMILY}"


@contextmanager
def another_python(kind: str, *scripts: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Another Python, whose ports run these; the processes of those."""
    command = [sys.executable, "-c", SCRIPT, kind, *scripts]
    pids: list[int] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for _ in scripts:
                pids += map(int, process.stdout.readline().split())
            assert len(pids) == 2 * len(scripts)
            assert not any(map(is_gone, pids))
            yield process, pids
        finally:
            process.kill()
            for pid in pids:  # only if the test fails
                with suppress(ProcessLookupError):
                    os.killpg(os.getpgid(pid), signal.SIGKILL)


@pytest.mark.parametrize("kind", ["asyncio", "uvloop", "thread"])
def test_the_sudden_death_of_this_python_is_the_death_of_its_programs(kind: str) -> None:  # E10
    if kind == "uvloop":
        pytest.importorskip("uvloop")
    with another_python(kind, FAMILY, OBSTINATE, FAMILY) as (process, pids):
        process.kill()
        process.wait()
        asyncio.run(gone(*pids))


@pytest.mark.parametrize("number_", [signal.SIGTERM, signal.SIGINT, signal.SIGABRT], ids=["TERM", "INT", "ABRT"])
def test_so_is_its_death_by_other_signals(number_: signal.Signals) -> None:  # E10
    with another_python("asyncio", FAMILY, OBSTINATE) as (process, pids):
        process.stderr = None
        process.send_signal(number_)
        asyncio.run(gone(process.pid, *pids))


def test_a_port_that_has_ended_is_no_concern_of_a_later_death() -> None:  # E10
    with another_python("asyncio", f"echo $$ $$; read -r x; {REST}", FAMILY, FAMILY) as (process, pids):
        os.kill(pids[0], signal.SIGKILL)  # the first has ended long before the others
        asyncio.run(gone(pids[0]))
        assert not any(map(is_gone, pids[2:]))
        process.kill()
        process.wait()
        asyncio.run(gone(*pids))


async def test_what_watches_over_programs_ends_with_the_last_of_them(system: ActorSystem) -> None:  # E10
    before = children()
    for _ in range(2):
        scenes = [Scene(system) for _ in range(3)]
        aliases = [await start(scene, ["cat"]) for scene in scenes]
        for scene, alias in zip(scenes, aliases, strict=True):
            assert len(children() - before) >= 1
            alias.tell(CloseWrite())
            await end_of(scene)
            await alias.terminated()
        assert children() == before


async def test_programs_of_two_systems_are_each_ended_with_their_own(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, ["cat"])
    async with ActorSystem("other") as other:
        second = Scene(other)
        await start(second, sh(f"echo $$; {REST}"))
        pid = await number(second)
    assert is_gone(pid)
    alias.tell(Write(b"still here"))
    assert await line(scene) == b"still here"


# -- a parent that is killed at any moment

MOMENTS = 40
BUSY = "cat & seq -f %0200g 100000 & yes $(printf %0200d 0) >&2 & cat; wait"
"""A group that reads, and writes to both of its outputs, all at once."""


async def kill_at(system: ActorSystem, random: Random) -> None:
    """Have an owner run programs that read and write, and kill it at some moment."""
    scene = Scene(system, mailbox=MailboxConfig(capacity=random.choice([1, 8, 1000])))
    pids: list[int] = []

    def begin(ctx: Any) -> list[Alias]:
        ports = [
            Port(sh(BUSY), framing=Raw(), kill_grace=0.01),
            Port(sh("trap '' TERM; " + BUSY), kill_grace=0.01),
            Port(["cat"], framing=Raw()),
        ]
        aliases = [ctx.spawn_meta(port) for port in ports]
        pids.extend(pid for port in ports if (pid := port.pid) is not None)
        return aliases

    aliases = await scene.do(begin)
    moment = random.randrange(60)
    for turn in range(moment):
        for alias in aliases:
            with suppress(MailboxFull):
                alias.tell(Write(b"%d" % turn * random.randrange(20_000)))
        await asyncio.sleep(0)
    {0: scene.owner.kill, 1: scene.owner.stop, 2: lambda: scene.owner.fail(ValueError("bad"))}[random.randrange(3)]()
    await scene.owner.terminated()
    for alias in aliases:
        await alias.terminated()
    assert len(pids) == 3
    assert all(map(is_gone, pids)), "the parent has ended, and its programs have not"
    assert not children() & set(pids), "they have not been reaped"
    scene.probe.ref.stop()


async def test_a_parent_may_be_killed_at_any_moment_while_its_programs_read_and_write(
    play: Play, system: ActorSystem
) -> None:  # E10, J12
    random = Random(play.backend)
    bystander = Scene(system)
    cat = await start(bystander, ["cat"])  # which must not notice: its pipes are its own
    before, threads = children(), set(threading.enumerate())
    for turn in range(MOMENTS):
        async with asyncio.timeout(LIMIT):
            await kill_at(system, random)
        cat.tell(Write(b"%d" % turn))
        assert await line(bystander) == b"%d" % turn
        assert children() == before
    await system.settle()
    assert not [one for one in threading.enumerate() if one not in threads and one.is_alive()]
    cat.tell(CloseWrite())
    assert await end_of(bystander) == Exited(cat, 0)


async def test_a_program_whose_parent_ends_while_it_is_started_is_ended_too(system: ActorSystem) -> None:  # E10
    class Slow(Port):
        def init(self) -> None:
            super().init()
            held.enter()

    held = Held()
    port, raised = Slow(["cat"]), Gate()

    def begin(ctx: Any) -> None:
        try:
            ctx.spawn_meta(port)
        except ActorTerminated as exc:
            raised.set_result(exc)

    scene = Scene(system, dispatcher="pinned")
    scene.owner.tell(begin)
    await held.entered.wait()
    scene.owner.kill()
    try:
        await scene.owner.terminated()
    finally:
        held.release()
    assert isinstance(await raised, ActorTerminated)
    assert port.pid is not None
    assert is_gone(port.pid)
    assert port.pid not in children()


async def test_ports_that_end_at_once_do_not_close_what_is_not_theirs(system: ActorSystem) -> None:  # E10
    random = Random(3)
    scene = Scene(system)
    bystander = Scene(system)
    for turn in range(30):
        aliases: list[Alias] = await scene.do(lambda ctx: [ctx.spawn_meta(Port(["cat"])) for _ in range(3)])
        for _ in range(random.randrange(8)):
            await asyncio.sleep(0)
        aliases[0].kill()
        cat = await start(bystander, ["cat"])  # its pipes may have the numbers of those
        aliases[1].kill()
        ours = os.pipe()
        aliases[2].kill()
        for alias in aliases:
            await alias.terminated()
        await asyncio.sleep(0)
        os.write(ours[1], b"x")
        assert select.select([ours[0]], [], [], 0)[0]
        assert os.read(ours[0], 1) == b"x"
        os.close(ours[0])
        os.close(ours[1])
        cat.tell(Write(b"%d" % turn))
        assert await hear(bystander)
        cat.tell(CloseWrite())
        outputs, exited = await all_of(bystander)
        assert text(outputs) == []
        assert exited == Exited(cat, 0)
