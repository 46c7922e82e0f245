"""A meta-process ends with its parent: its reader is broken off wherever it is blocked, and nothing is left (E2)."""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
import os
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorSystem,
    Alias,
    ChildSpec,
    ExitKind,
    ExitReason,
    MailboxConfig,
    ManualClock,
    Shutdown,
    StopChild,
    Supervision,
    Supervisor,
    WhichChildren,
)
from greenroom.meta import MetaOptions, MetaProcess, TcpServer
from greenroom.meta.process.reader import ReaderStopped, Waits
from greenroom.testing import TestProbe
from tests.gates import Event, turns
from tests.logs import logged
from tests.meta.blocked import (
    READERS,
    Blocked,
    Props,
    accept,
    blocked,
    ignore_errors,
    insist_async,
    reads,
    recv,
    recv_async,
    recvfrom,
    sockets_of,
    wait,
    wait_async,
    wait_for_a_pipe,
    wait_for_an_event,
)
from tests.meta.owners import BAD, AsyncOwner, Diary, Ended, Held, Owner, Ref, Scene, noted, pair
from tests.meta.peers import Peer

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
@pytest.mark.config(stop_timeout=IN_TIME)
async def test_a_blocked_reader_is_broken_off_when_its_parent_stops(
    system: ActorSystem, props: Props, block: Any
) -> None:  # E2
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
@pytest.mark.parametrize("block", [recv, wait_for_a_pipe, wait, wait_async])
async def test_it_ends_with_its_parents_reason(system: ActorSystem, props: Props, block: Any, how: str) -> None:  # E2
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


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
@pytest.mark.parametrize("block", [recv, wait_for_a_pipe, wait, wait_async])
async def test_a_parent_on_another_thread_takes_its_meta_process_along(
    system: ActorSystem, props: Props, block: Any, dispatcher: str
) -> None:  # E2
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


def is_in_call(thread: int, fd: int) -> bool:
    """Whether a thread is in a system call that was given this descriptor."""
    return f" {fd:#x} " in Path(f"/proc/self/task/{thread}/syscall").read_text(encoding="ascii")


def test_a_descriptor_that_was_closed_and_reused_meanwhile_is_never_touched(play: Play) -> None:  # E2, case 66
    reading, writing = os.pipe()
    theirs, their_end = os.pipe()
    begun, held = Event(), Held()
    threads: list[int] = []

    class Reads(MetaProcess):
        def start(self) -> None:
            threads.append(threading.get_native_id())
            begun.set()
            os.read(reading, 1)
            held.enter()

    async def program(system: ActorSystem) -> None:
        alias = await Scene(system).spawn(Reads(), MetaOptions(stop_timeout=0.05))
        await begun.wait()
        while not is_in_call(threads[0], reading):  # noqa: ASYNC110 - nobody is told when it blocks
            await asyncio.sleep(0)
        os.dup2(theirs, reading)  # closed, and another file's number from now on; the read goes on all the same
        alias.stop()
        await alias.terminated()
        assert os.fstat(reading).st_ino == os.fstat(theirs).st_ino

    try:
        play(program)
    finally:
        held.release()
        for fd in (writing, reading, theirs, their_end):
            os.close(fd)


def test_what_was_waited_for_goes_on_to_be_usable(play: Play) -> None:  # E2
    reading, writing = os.pipe()
    begun = Event()

    class Reads(MetaProcess):
        def start(self) -> None:
            begun.set()
            self.wait_readable(reading)

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


class Stuck(MetaProcess):
    """Waits where nothing reaches it."""

    def __init__(self, held: Held) -> None:
        self.held = held

    def start(self) -> None:
        self.held.enter()


@pytest.mark.parametrize("clock", [None, ManualClock()], ids=["a clock", "a clock that stands still"])
def test_a_reader_that_nothing_reaches_is_left_behind_by_name(play: Play, clock: ManualClock | None) -> None:  # case 66
    held = Held()
    options: dict[str, Any] = {} if clock is None else {"clock": clock}

    async def program(system: ActorSystem) -> None:
        scene = Scene(system, name="owner")
        with logged("start() of /owner/stuck does not return") as said:
            alias = await scene.spawn(Stuck(held), MetaOptions(name="stuck", stop_timeout=0.05))
            await held.entered.wait()
            alias.stop()
            assert (await alias.terminated()).kind is ExitKind.KILLED
            await said.wait()
        assert await scene.do(lambda ctx: "the system goes on") == "the system goes on"

    try:
        system = play(program, **options)
        assert system.report is not None
        assert system.report.forced == ("/owner/stuck",)
    finally:
        held.release()


def test_a_reader_that_nothing_reaches_is_named_before_the_system_has_ended(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:  # case 66
    held = Held()

    async def program(system: ActorSystem) -> None:
        await Scene(system, name="owner").spawn(Stuck(held), MetaOptions(name="stuck"))
        await held.entered.wait()

    try:
        system = play(program, stop_timeout=0.05)
        assert system.report is not None
        assert "/owner/stuck" in system.report.forced
        assert "start() of /owner/stuck does not return" in caplog.text
        assert "held.enter()" in caplog.text  # where it is
    finally:
        held.release()


@pytest.mark.parametrize("block", [recv, wait_for_a_pipe, wait, recv_async])
async def test_a_reader_is_broken_off_when_the_time_of_the_system_is_up_and_its_parent_holds_its_thread(
    system: ActorSystem, props: Props, block: Any
) -> None:  # E2
    held = Held()
    scene, meta = Scene(system, dispatcher="parallel"), blocked(props, block)
    alias = await scene.spawn(meta)
    await props.begun.wait()
    scene.owner.tell(lambda ctx: held.enter())
    await held.entered.wait()
    await system.shutdown(timeout=0.1)
    assert not alias.is_alive
    # Its thread leaves when it is broken off, and nobody is told.
    while reads() or any(sock.fileno() != -1 for sock in sockets_of(meta)):  # noqa: ASYNC110
        await asyncio.sleep(0)
    held.release()


@pytest.mark.parametrize("where", ["start", "handle_message"])
def test_a_file_that_a_thread_left_behind_reads_is_closed_when_that_has_left(play: Play, where: str) -> None:  # E2
    reading, writing = os.pipe()
    begun, left = Event(), Event()

    class Reads(MetaProcess):
        def __init__(self) -> None:
            self.file = os.fdopen(reading, "rb")

        def read(self) -> None:
            begun.set()
            self.file.read(1)  # whoever closed it meanwhile would wait for this
            left.set()

    class InStart(Reads):
        def start(self) -> None:
            self.read()

    class InHandler(Reads):
        def handle_message(self, message: Any) -> None:
            self.read()

    async def program(system: ActorSystem) -> None:
        scene, meta = Scene(system), InStart() if where == "start" else InHandler()
        alias = await scene.spawn(meta, MetaOptions(stop_timeout=0.05))
        alias.tell("read")
        await begun.wait()
        alias.stop()
        await alias.terminated()
        assert not meta.file.closed
        os.write(writing, b"x")
        await left.wait()
        while not meta.file.closed:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0)

    try:
        play(program)
    finally:
        os.close(writing)


@pytest.mark.parametrize("how", ["recv", "wait_readable", "send"])
def test_a_handler_that_blocks_is_broken_off_at_the_deadline(
    play: Play, how: str, caplog: pytest.LogCaptureFixture
) -> None:  # E2
    ours, theirs = pair()
    begun, busy = Event(), Held()

    class Asks(Diary):
        def __init__(self) -> None:
            super().__init__()
            self.sock = ours

        def handle_message(self, message: Any) -> None:
            begun.set()
            if how == "recv":
                self.sock.recv(100)
            elif how == "wait_readable":
                self.wait_readable(theirs)
            while how == "send":
                self.send(self.parent, "more", wait=True)

    async def program(system: ActorSystem) -> None:
        scene, meta = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=1)), Asks()
        alias = await scene.spawn(meta, MetaOptions(stop_timeout=0.05))
        scene.owner.tell(lambda ctx: busy.enter_async(), lane=3)  # type: ignore[arg-type]
        await busy.entered.wait()
        alias.tell("read")
        await begun.wait()
        alias.stop()
        await alias.terminated()
        assert len(noted(meta)) == 1
        busy.release()

    with ours, theirs:
        play(program)
    assert "is abandoned" not in caplog.text


async def test_a_reader_that_waits_for_room_is_broken_off(system: ActorSystem) -> None:  # E2
    begun, busy = Event(), Held()

    class Flood(MetaProcess):
        def start(self) -> None:
            while True:
                self.send(self.parent, "more", wait=True)
                begun.set()

    scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=1))
    scene.probe.ignore(lambda one: getattr(one, "message", None) == "more")
    alias = await scene.spawn(Flood())
    await begun.wait()
    scene.owner.tell(lambda ctx: busy.enter_async(), lane=3)  # type: ignore[arg-type]
    await busy.entered.wait()
    alias.stop()
    await alias.terminated()
    assert reads() == []
    busy.release()


async def test_many_readers_are_broken_off_at_once(system: ActorSystem, props: Props) -> None:  # E2
    scene = Scene(system)
    metas = [blocked(props, block) for block in (recv, wait_for_a_pipe, accept, recvfrom, wait) for _ in range(12)]
    aliases: list[Alias] = [await scene.spawn(meta) for meta in metas]
    assert len(reads()) == 60
    scene.owner.stop()
    await scene.owner.terminated()
    assert reads() == []
    assert {(await alias.terminated()).kind for alias in aliases} == {ExitKind.NORMAL}
    assert [len(meta.reasons) for meta in metas] == [1] * 60


async def test_a_reader_is_broken_off_though_a_manual_clock_stands_still(
    system: ActorSystem, clock: ManualClock, props: Props
) -> None:  # E2
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


async def test_one_that_is_stopped_before_it_reads_ends_all_the_same(system: ActorSystem, props: Props) -> None:  # E2
    meta = blocked(props, wait)

    def at_once(ctx: Any) -> Any:
        alias = ctx.spawn_meta(meta)
        alias.stop()
        return alias

    scene = Scene(system)
    alias = await scene.do(at_once)
    await scene.probe.expect(Ended(alias, None))
    assert len(meta.reasons) == 1


async def test_a_parent_that_fails_to_start_takes_its_meta_processes_along(
    system: ActorSystem, props: Props
) -> None:  # E2
    meta = blocked(props, wait)

    def fail(ctx: Any) -> None:
        ctx.spawn_meta(meta)
        raise BAD

    owner = system.spawn(Owner, TestProbe(system).ref, fail, supervision=Supervision(max_restarts=0))
    with pytest.raises(ValueError, match="bad"):
        await owner.started()
    await owner.terminated()
    assert meta.reasons == [ExitReason(ExitKind.FAIL, BAD)]


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


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def readable(fd: Any, seconds: float | None = None) -> bool:
    return Waits().wait_for_fd(fd, select.POLLIN, seconds)


def test_a_descriptor_is_ready_when_there_is_something_or_the_other_end_is_closed(pipe: tuple[int, int]) -> None:  # E1
    reading, writing = pipe
    assert not readable(reading, 0)
    assert not readable(reading, 0.001)
    assert not readable(reading, -1)
    os.write(writing, b"x")
    assert readable(reading)
    assert readable(reading, 0)
    ours, theirs = socket.socketpair()
    with ours:
        assert not readable(ours, 0)  # anything that has a `fileno()`
        theirs.close()
        assert readable(ours)


def test_a_pipe_is_ready_for_writing_when_it_has_room(pipe: tuple[int, int]) -> None:  # E1
    reading, writing = pipe
    os.set_blocking(writing, False)
    written = 0
    while Waits().wait_for_fd(writing, select.POLLOUT, 0):
        written += os.write(writing, bytes(4096))
    os.read(reading, written)
    assert Waits().wait_for_fd(writing, select.POLLOUT, None)


def test_a_descriptor_that_is_closed_is_an_error() -> None:  # E1
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        readable(fd)
    with closing(socket.socket()) as sock:
        sock.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            readable(sock)


def test_the_end_wakes_all_that_wait_and_all_that_come_later(pipe: tuple[int, int]) -> None:  # E1
    waits, (reading, _) = Waits(), pipe
    kinds: list[Callable[[], bool]] = [
        lambda: waits.wait_for_fd(reading, select.POLLIN, None),
        lambda: waits.wait_for_fd(reading, select.POLLIN, 600),
        lambda: waits.wait_for_end(None),
        lambda: waits.wait_for_end(600),
    ]
    barrier = threading.Barrier(2 * len(kinds) + 1)

    def wait(kind: Callable[[], bool]) -> bool:
        barrier.wait()
        try:
            return kind()
        except ReaderStopped:
            return True

    with ThreadPoolExecutor(2 * len(kinds)) as pool:
        ends = [pool.submit(wait, kind) for kind in 2 * kinds]
        barrier.wait()
        waits.end()
        assert all(end.result() for end in ends)
        waits.end()
    assert waits.wait_for_end(0)
    with pytest.raises(ReaderStopped):
        waits.wait_for_fd(reading, select.POLLIN, 0)


def test_without_an_end_nobody_is_woken(pipe: tuple[int, int]) -> None:  # E1
    waits = Waits()
    assert not waits.is_used
    assert not waits.wait_for_end(0)
    assert waits.is_used
    os.write(pipe[1], b"x")
    assert waits.wait_for_fd(pipe[0], select.POLLIN, None)
    assert not waits.is_over


async def owner_without_time(system: ActorSystem) -> Ref:
    """An actor that its supervisor kills at once when it is to end."""
    child = ChildSpec("owner", Owner, (TestProbe(system).ref,), shutdown=Shutdown.KILL)
    boss = system.spawn(Supervisor, Supervisor.spec(children=[child], intensity=None))
    owner: Ref | None = (await boss.ask(WhichChildren()))[0].ref
    assert owner is not None
    return owner


def end(ref: Ref, how: str) -> None:
    if how == "fail":
        ref.fail(BAD)
    else:
        getattr(ref, how)()


@pytest.mark.parametrize("how", ["kill", "stop", "fail"])
@pytest.mark.parametrize("whose", ["its own", "its parent's"])
@pytest.mark.parametrize("block", [wait, wait_async])
async def test_it_terminates_all_the_same(
    system: ActorSystem, props: Props, block: Any, whose: str, how: str
) -> None:  # E2
    meta = blocked(props, block)
    spawned: list[Alias] = []

    def at_once(ctx: Any) -> None:
        spawned.append(ctx.spawn_meta(meta))
        end(spawned[0] if whose == "its own" else ctx.self, how)

    owner = await owner_without_time(system)
    owner.tell(at_once)
    while not spawned:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await spawned[0].terminated()
    assert len(meta.reasons) == 1


@pytest.mark.parametrize("how", ["kill", "stop", "fail"])
@pytest.mark.parametrize("later", range(5))
async def test_a_connection_that_arrives_just_then_is_closed(system: ActorSystem, later: int, how: str) -> None:  # E10
    """The operating system makes connections before anybody has accepted them."""
    owner = await owner_without_time(system)
    server = TcpServer(register=True)
    alias: Alias = await owner.ask(lambda ctx: ctx.spawn_meta(server))
    await alias.started()
    peers = [Peer(socket.create_connection(server.address)) for _ in range(5)]
    await turns(later)
    end(owner, how)
    for peer in peers:
        await peer.cut_off()
        peer.sock.close()
    await alias.terminated()
