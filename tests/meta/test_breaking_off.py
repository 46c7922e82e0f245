"""A meta-process ends with its parent: its reader is broken off wherever it is blocked, and nothing is left (E2)."""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorSystem,
    Alias,
    ChildSpec,
    ExitKind,
    ExitReason,
    ManualClock,
    Shutdown,
    StopChild,
    Supervision,
    Supervisor,
    WhichChildren,
)
from greenroom.meta import MetaOptions, MetaProcess
from greenroom.testing import TestProbe
from tests.gates import Event
from tests.logs import logged
from tests.meta.blocked import (
    READERS,
    Blocked,
    Props,
    accept,
    blocked,
    ignore_errors,
    insist_async,
    read_a_pipe,
    reads,
    recv,
    recvfrom,
    sockets_of,
    wait,
    wait_async,
    wait_for_an_event,
)
from tests.meta.cast import BAD, AsyncOwner, Diary, Ended, Held, Owner, Ref, Scene, noted, pair

if TYPE_CHECKING:
    from tests.conftest import Play


@pytest.fixture
def props(tmp_path: Path) -> Iterator[Props]:
    made = Props(tmp_path)
    yield made
    made.close()


readers = pytest.mark.parametrize("block", READERS)
IN_TIME = 20.0
"""Seconds until a reader is abandoned: never reached, unless something is wrong."""


@readers
def test_a_blocked_reader_is_broken_off_when_its_parent_stops(play: Play, props: Props, block: Any) -> None:  # E2
    async def program(system: ActorSystem) -> None:
        scene, meta = Scene(system), blocked(props, block)
        alias = await scene.spawn(meta)
        await props.begun.wait()
        assert len(reads()) == (0 if inspect.iscoroutinefunction(block) else 1)
        alias.tell("it lives")
        assert await scene.heard() == "it lives"
        scene.owner.stop()
        assert await scene.owner.terminated() == ExitReason(ExitKind.NORMAL)
        assert reads() == []
        assert meta.reasons == [await alias.terminated()]
        assert all(sock.fileno() == -1 for sock in sockets_of(meta))

    play(program, stop_timeout=IN_TIME)


@readers
def test_a_blocked_reader_is_broken_off_when_the_system_stops(play: Play, props: Props, block: Any) -> None:  # E2
    metas: list[Blocked] = []

    async def program(system: ActorSystem) -> None:
        scene, meta = Scene(system), blocked(props, block)
        metas.append(meta)
        await scene.spawn(meta)
        await props.begun.wait()

    play(program, stop_timeout=IN_TIME)
    assert reads() == []
    assert metas[0].reasons == [ExitReason(ExitKind.SHUTDOWN)]
    assert all(sock.fileno() == -1 for sock in sockets_of(metas[0]))


ENDS: dict[str, tuple[Callable[[Scene], object], ExitReason]] = {
    "stop": (lambda scene: scene.owner.stop(), ExitReason(ExitKind.NORMAL)),
    "stop itself": (lambda scene: scene.owner.tell(lambda ctx: ctx.stop()), ExitReason(ExitKind.NORMAL)),
    "kill": (lambda scene: scene.owner.kill(), ExitReason(ExitKind.KILLED)),
    "fail": (lambda scene: scene.owner.fail(BAD), ExitReason(ExitKind.FAIL, BAD)),
    "restart": (lambda scene: scene.owner.restart(BAD), ExitReason(ExitKind.FAIL, BAD)),
}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("block", [recv, read_a_pipe, wait, wait_async])
def test_it_ends_with_its_parents_reason(play: Play, props: Props, block: Any, how: str) -> None:  # E2
    async def program(system: ActorSystem) -> None:
        scene, other = Scene(system), Scene(system)
        meta = blocked(props, block)
        alias = await scene.spawn(meta)
        mref = await other.do(lambda ctx: ctx.monitor(alias))
        await other.probe.watch(alias)
        await props.begun.wait()
        act, reason = ENDS[how]
        act(scene)
        told = [await other.probe.receive(), await other.probe.receive()]
        down = next(one.message for one in told if hasattr(one, "message"))
        terminated = next(one for one in told if not hasattr(one, "message"))
        assert meta.reasons == [reason]
        assert (down.mref, down.ref, down.reason) == (mref, alias, reason)
        assert (terminated.ref, terminated.reason) == (alias, reason)
        assert reads() == []
        assert all(sock.fileno() == -1 for sock in sockets_of(meta))
        if how == "restart":
            assert await scene.do(lambda ctx: ctx.metas) == []

    play(program)


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
@pytest.mark.parametrize("block", [recv, read_a_pipe, wait, wait_async])
def test_a_parent_on_another_thread_takes_its_meta_process_along(
    play: Play, props: Props, block: Any, dispatcher: str
) -> None:  # E2
    async def program(system: ActorSystem) -> None:
        scene, meta = Scene(system, dispatcher=dispatcher), blocked(props, block)
        alias = await scene.spawn(meta)
        await props.begun.wait()
        assert await scene.do(lambda ctx: (ctx.metas, ctx.children)) == ([alias], [])
        alias.tell("hello")
        assert await scene.heard() == "hello"
        alias.stop()
        await scene.probe.expect(Ended(alias, None))
        again = await scene.spawn(Diary())
        scene.owner.stop()
        await scene.owner.terminated()
        assert not again.is_alive

    play(program)


def test_what_was_read_from_goes_on_to_be_usable(play: Play) -> None:  # E2
    reading, writing = os.pipe()
    begun = Event()

    class Reads(MetaProcess):
        def start(self) -> None:
            begun.set()
            os.read(reading, 100)

    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        for _ in range(20):
            begun.clear()
            alias = await scene.spawn(Reads())
            await begun.wait()
            alias.stop()
            await scene.probe.expect(Ended(alias, None))
            os.write(writing, b"still here")
            assert os.read(reading, 100) == b"still here"

    try:
        play(program)
    finally:
        os.close(reading)
        os.close(writing)


def test_the_programs_own_output_is_not_closed_with_what_writes_to_it(play: Play) -> None:  # E2
    class Prints(MetaProcess):
        def __init__(self) -> None:
            self.out = sys.stdout
            self.err = sys.__stderr__

        def start(self) -> None:
            self.wait()

    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        alias = await scene.spawn(Prints())
        alias.stop()
        await alias.terminated()
        assert not sys.stdout.closed
        assert sys.__stderr__ is not None
        assert not sys.__stderr__.closed

    kept, stand_in = sys.stdout, io.TextIOWrapper(io.FileIO(os.dup(2), "w"), encoding="utf-8")
    errors = sys.__stderr__
    sys.__stderr__ = io.TextIOWrapper(io.FileIO(os.dup(2), "w"), encoding="utf-8")  # type: ignore[misc]
    sys.stdout = stand_in
    try:
        play(program)
    finally:
        sys.stdout = kept
        stand_in.close()
        sys.__stderr__.close()
        sys.__stderr__ = errors  # type: ignore[misc]


def test_a_reader_that_cannot_be_broken_off_is_abandoned_by_name(play: Play) -> None:  # E2
    held = Held()

    class Stuck(MetaProcess):
        def start(self) -> None:
            held.enter()

    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        with logged("start() of /owner/stuck does not return") as said:
            alias = await Scene(system, name="owner").spawn(Stuck(), MetaOptions(name="stuck", stop_timeout=0.05))
            await held.entered.wait()
            alias.stop()
            await alias.terminated()
            await said.wait()
        assert await scene.do(lambda ctx: "the system goes on") == "the system goes on"

    try:
        play(program)
    finally:
        held.let_go()


def test_a_handler_that_blocks_in_a_read_is_broken_off_at_the_deadline(play: Play) -> None:  # E2
    ours, theirs = pair()
    begun = Event()

    class Asks(Diary):
        def handle_message(self, message: Any) -> None:
            begun.set()
            ours.recv(100)

    async def program(system: ActorSystem) -> None:
        scene, meta = Scene(system), Asks()
        alias = await scene.spawn(meta, MetaOptions(stop_timeout=0.05))
        alias.tell("read")
        await begun.wait()
        scene.owner.stop()
        await scene.owner.terminated()
        assert not alias.is_alive
        assert len(noted(meta)) == 1

    with ours, theirs:
        play(program)


def test_a_reader_that_waits_for_room_is_broken_off(play: Play) -> None:  # E2
    begun, busy = Event(), Held()

    class Flood(MetaProcess):
        def start(self) -> None:
            while True:
                self.send(self.parent, "more", wait=True)
                begun.set()

    async def program(system: ActorSystem) -> None:
        from greenroom import MailboxConfig

        scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=1))
        scene.probe.ignore(lambda one: getattr(one, "message", None) == "more")
        alias = await scene.spawn(Flood())
        await begun.wait()
        scene.owner.tell(lambda ctx: busy.enter_async(), lane=3)  # type: ignore[arg-type]
        await busy.entered.wait()
        alias.stop()
        await alias.terminated()
        assert reads() == []
        busy.let_go()

    play(program)


def test_many_readers_are_broken_off_at_once(play: Play, props: Props) -> None:  # E2
    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        metas = [blocked(props, block) for block in (recv, read_a_pipe, accept, recvfrom, wait) for _ in range(12)]
        aliases: list[Alias] = [await scene.spawn(meta) for meta in metas]
        assert len(reads()) == 60
        scene.owner.stop()
        await scene.owner.terminated()
        assert reads() == []
        assert {(await alias.terminated()).kind for alias in aliases} == {ExitKind.NORMAL}
        assert [len(meta.reasons) for meta in metas] == [1] * 60

    play(program)


def test_a_reader_is_broken_off_though_a_manual_clock_stands_still(play: Play, props: Props) -> None:  # E2
    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        for block in (recv, ignore_errors, wait_for_an_event, insist_async):
            meta = blocked(props, block)
            props.begun.clear()
            alias = await scene.spawn(meta)
            await props.begun.wait()
            alias.stop()
            await alias.terminated()
            assert len(meta.reasons) == 1
        assert reads() == []

    play(program, clock=ManualClock())


def test_one_that_is_stopped_before_it_reads_ends_all_the_same(play: Play, props: Props) -> None:  # E2
    meta = blocked(props, wait)

    def at_once(ctx: Any) -> Any:
        alias = ctx.spawn_meta(meta)
        alias.stop()
        return alias

    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        alias = await scene.do(at_once)
        await scene.probe.expect(Ended(alias, None))
        assert len(meta.reasons) == 1

    play(program)


def test_a_parent_that_fails_to_start_takes_its_meta_processes_along(play: Play, props: Props) -> None:  # E2
    meta = blocked(props, wait)

    def fail(ctx: Any) -> None:
        ctx.spawn_meta(meta)
        raise BAD

    async def program(system: ActorSystem) -> None:
        owner = system.spawn(Owner, TestProbe(system).ref, fail, supervision=Supervision(max_restarts=0))
        with pytest.raises(ValueError, match="bad"):
            await owner.started()
        await owner.terminated()
        assert meta.reasons == [ExitReason(ExitKind.FAIL, BAD)]

    play(program)


@readers
def test_a_parent_that_is_given_no_time_to_stop_ends_without_complaint(
    play: Play, props: Props, block: Any, caplog: pytest.LogCaptureFixture
) -> None:  # E2
    async def program(system: ActorSystem) -> None:
        meta = blocked(props, block)
        child = ChildSpec("owner", Owner, (TestProbe(system).ref,), shutdown=Shutdown.KILL)
        boss = system.spawn(Supervisor, Supervisor.spec(children=[child]))
        owner: Ref | None = (await boss.ask(WhichChildren()))[0].ref
        assert owner is not None
        alias = await owner.ask(lambda ctx: ctx.spawn_meta(meta))
        await props.begun.wait()
        await boss.ask(StopChild("owner"))
        await alias.terminated()
        assert len(meta.reasons) == 1
        while reads():  # noqa: ASYNC110 - its thread leaves when it is broken off, and nobody is told
            await asyncio.sleep(0)

    play(program, stop_timeout=IN_TIME)
    assert [one.getMessage() for one in caplog.records if one.levelno > logging.INFO] == []
