"""`Port`: how a program is ended, and all that it has started (E10)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorSystem, Alias, Directive, Supervision
from greenroom.meta import Close, Exited, Output, Port, SendSignal, Write
from greenroom.testing import TestProbe
from tests.meta.owners import Ref, Scene
from tests.meta.ports.programs import REST, all_of, end_of, gone, hear, is_gone, line, number, python, sh, start, text

if TYPE_CHECKING:
    from tests.conftest import Play

FAMILY = f'sh -c "{REST.replace("$", chr(92) + "$")}" & echo $!; echo $$; {REST}'
"""A program that has started another: the number of that, and its own."""
OBSTINATE = f"trap '' TERM HUP INT; {FAMILY}"
"""The same; neither of them ends when asked to."""
LATE = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.write(1, b"%d\\n" % os.getpid())
signal.sigwait([signal.SIGTERM])
parent = int(sys.argv[1])
while os.getppid() == parent and open(f"/proc/{parent}/stat").read().rpartition(")")[2].split()[0] != "Z":
    time.sleep(0.01)
time.sleep(0.1)  # it has something to do when the other one has ended
open(sys.argv[2], "w").write("tidy")
"""
WHEN_ASKED = """
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.write(1, b"ready\\n")
signal.sigwait([signal.SIGTERM])
"""
"""What follows is done when the program is asked to end. Not by a shell: whom it is starting may not notice."""


async def family(scene: Scene, script: str = FAMILY, **options: Any) -> tuple[Alias, int, int]:
    alias = await start(scene, sh(script), **options)
    child, leader = await number(scene), await number(scene)
    assert not is_gone(child)
    assert not is_gone(leader)
    return alias, child, leader


# -- being ended

ENDINGS: list[tuple[str, Callable[[Alias], object], int]] = [
    ("stop", lambda alias: alias.stop(), -15),
    ("stop after queued", lambda alias: alias.stop(after_queued=True), -15),
    ("close", lambda alias: alias.tell(Close()), -15),
    ("abort", lambda alias: alias.tell(Close(abort=True)), -9),
    ("kill", lambda alias: alias.kill(), -9),
]
endings = pytest.mark.parametrize(("end", "status"), [one[1:] for one in ENDINGS], ids=[one[0] for one in ENDINGS])


@endings
async def test_a_port_that_ends_takes_the_program_and_its_group_along(
    system: ActorSystem, end: Any, status: int
) -> None:  # E10
    scene = Scene(system)
    alias, child, leader = await family(scene)
    end(alias)
    assert await end_of(scene) == Exited(alias, status)
    await alias.terminated()
    assert is_gone(leader)
    await gone(child)


@endings
async def test_who_does_not_end_when_asked_is_killed(system: ActorSystem, end: Any, status: int) -> None:  # E10
    scene = Scene(system)
    alias, child, leader = await family(scene, OBSTINATE, kill_grace=0.05)
    end(alias)
    assert await end_of(scene) == Exited(alias, -9)
    await alias.terminated()
    await gone(leader, child)


async def test_a_program_has_its_grace_to_end_in_its_own_way(system: ActorSystem) -> None:  # E10
    script = WHEN_ASKED + 'time.sleep(0.1); os.write(1, b"bye\\n"); os._exit(3)'
    for end in (Close(), None):
        scene = Scene(system)
        alias = await start(scene, python(script), kill_grace=200.0)
        assert await line(scene) == b"ready"
        if end is None:
            alias.stop()
        else:
            alias.tell(end)
        outputs, exited = await all_of(scene)
        assert text(outputs) == [b"bye"]
        assert exited == Exited(alias, 3)


async def test_all_that_a_program_says_when_it_is_asked_to_end_is_heard_before_its_end(
    system: ActorSystem,
) -> None:  # E10
    script = WHEN_ASKED + 'print(*range(1, 5001), "last", sep="\\n", end="", flush=True)'
    for _ in range(5):
        scene = Scene(system)
        alias = await start(scene, python(script), kill_grace=200.0)
        assert await line(scene) == b"ready"
        alias.tell(Close())
        outputs, exited = await all_of(scene)
        assert text(outputs) == [*(str(one).encode() for one in range(1, 5001)), b"last"]
        assert exited == Exited(alias, 0)


async def test_the_others_of_the_group_have_the_same_grace(system: ActorSystem, tmp_path: Path) -> None:  # E10
    mark = tmp_path / "mark"
    scene = Scene(system)
    script = '"$@" $$ "$MARK" & wait; wait'
    command = [*sh(script), "sh", *python(LATE)]
    alias = await start(scene, command, kill_grace=200.0, extra_environment={"MARK": str(mark)})
    child = await number(scene)
    alias.stop()  # the shell ends at once, and the other one a little later
    await alias.terminated()
    await gone(child)
    assert mark.read_text() == "tidy"


async def test_what_a_program_leaves_behind_is_ended_with_it(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    for trap in ("", "trap '' TERM; "):
        script = f'{trap}sh -c "{REST.replace("$", chr(92) + "$")}" & echo $!; exit 6'
        alias = await start(scene, sh(script), kill_grace=0.05)
        child = await number(scene)
        outputs, exited = await all_of(scene)  # though the child holds its output open
        assert text(outputs) == []
        assert exited == Exited(alias, 6)
        await alias.terminated()
        await gone(child)


async def test_what_a_program_leaves_behind_is_asked_to_end_before_it_is_killed(
    system: ActorSystem, tmp_path: Path
) -> None:  # E10
    mark = tmp_path / "mark"
    scene = Scene(system)
    command = [*sh('"$@" $$ "$MARK" & read -r x; exit 0'), "sh", *python(LATE)]
    alias = await start(scene, command, kill_grace=200.0, extra_environment={"MARK": str(mark)})
    child = await number(scene)
    alias.tell(Write(b"go"))
    assert await end_of(scene) == Exited(alias, 0)
    await alias.terminated()
    await gone(child)
    assert mark.read_text() == "tidy"


async def test_a_line_without_an_end_is_heard_though_another_process_holds_the_output_open(
    system: ActorSystem,
) -> None:  # E10
    scene = Scene(system)
    await start(scene, sh("printf unended; sleep 1000 & exit 0"))
    outputs, exited = await all_of(scene)
    assert text(outputs) == [b"unended"]
    assert exited.status == 0


async def test_one_that_has_left_the_group_does_not_keep_the_port(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, python(RUNAWAY))
    runaway = await number(scene)
    try:
        assert await end_of(scene) == Exited(alias, 0)
        await alias.terminated()
        assert not is_gone(runaway)  # as it was told
    finally:
        signal.pidfd_send_signal(fd := os.pidfd_open(runaway), signal.SIGKILL)
        os.close(fd)


RUNAWAY = """
import os, signal
ready, done = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.write(1, b"%d\\n" % os.getpid())
    os.write(done, b".")
    while True: signal.pause()
os.read(ready, 1)
"""


async def test_a_program_that_is_stopped_by_a_signal_ends_all_the_same(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias, child, leader = await family(scene, kill_grace=200.0)
    await alias.ask(SendSignal(signal.SIGSTOP), timeout=None)
    alias.stop()
    assert await end_of(scene) == Exited(alias, -15)  # it goes on so that it can end when asked
    await gone(leader, child)


@pytest.mark.parametrize("end", [one[1] for one in ENDINGS[:1] + ENDINGS[-1:]], ids=["stop", "kill"])
async def test_a_port_may_end_before_its_program_has_said_a_word(system: ActorSystem, end: Any) -> None:  # E10
    scene = Scene(system)
    for turns in range(12):
        alias: Alias = await scene.do(lambda ctx: ctx.spawn_meta(Port(["cat"])))
        for _ in range(turns):
            await asyncio.sleep(0)
        pid = (await alias.inspect("pid", timeout=None))["pid"] if turns % 2 else None
        end(alias)
        exited = await hear(scene)
        assert (type(exited), exited.alias) == (Exited, alias)
        await alias.terminated()
        assert pid is None or is_gone(pid)


# -- the end of its parent, and of its owner

DEATHS: dict[str, Callable[[Ref], object]] = {
    "stop": lambda ref: ref.stop(),
    "kill": lambda ref: ref.kill(),
    "failure": lambda ref: ref.fail(ValueError("bad")),
}
deaths = pytest.mark.parametrize("die", DEATHS.values(), ids=DEATHS)


@deaths
@pytest.mark.parametrize("script", [FAMILY, OBSTINATE], ids=["willing", "obstinate"])
async def test_a_parent_that_ends_takes_its_programs_along(system: ActorSystem, die: Any, script: str) -> None:  # E10
    scene = Scene(system)
    families = [await family(scene, script, kill_grace=0.05) for _ in range(3)]
    die(scene.owner)
    await scene.owner.terminated()
    for alias, child, leader in families:
        await alias.terminated()
        assert is_gone(leader)
        await gone(child)
    await system.settle()


def test_a_system_that_shuts_down_takes_its_programs_along(play: Play) -> None:  # E10
    pids: list[int] = []

    async def program(system: ActorSystem) -> None:
        for script in (FAMILY, OBSTINATE):
            scene = Scene(system)
            pids.extend((await family(scene, script, kill_grace=0.05))[1:])

    play(program)
    assert len(pids) == 4
    asyncio.run(gone(*pids))


async def test_a_parent_that_is_restarted_has_its_programs_ended(system: ActorSystem) -> None:  # E10
    scene = Scene(system, supervision=Supervision(Directive.RESTART, backoff=None))
    alias, child, leader = await family(scene)
    scene.owner.fail(ValueError("bad"))
    await alias.terminated()
    await gone(leader, child)
    other = await start(scene, sh("echo again"))
    assert (
        await scene.probe.fish(lambda heard: getattr(heard.message, "data", None) == b"again")
    ).message.alias == other
    assert await end_of(scene) == Exited(other, 0)


@deaths
async def test_the_end_of_another_owner_ends_the_program_too(system: ActorSystem, die: Any) -> None:  # E10
    class Deaf(Actor[Any]):
        def receive(self, message: Any) -> None:
            probe_of[0].ref.tell(message)

    probe_of: list[TestProbe] = []
    probe_of[:] = [TestProbe(system)]
    scene = Scene(system)
    owner: Ref = system.spawn(Deaf)
    alias = await start(scene, sh(FAMILY), owner=owner)
    pids = [int((await probe_of[0].expect(Output)).data) for _ in range(2)]
    die(owner)
    await owner.terminated()
    await gone(*pids)
    await alias.terminated()
