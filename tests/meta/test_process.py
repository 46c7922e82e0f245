"""Meta-processes: a reader that may block, a handler beside it, and its three states (E1, E3)."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, ExitKind, ExitReason, Lane, ManualClock, Parallel
from greenroom.errors import MetaNotSpawned, Unhandled
from greenroom.meta import MetaProcess, MetaState
from tests.meta.owners import Diary, Ended, Held, Quiet, Scene, kinds, pair

if TYPE_CHECKING:
    from tests.conftest import Play


class Line(MetaProcess):
    """Passes on what its socket says, and writes to it what it is told."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def start(self) -> None:
        while data := self.sock.recv(100):
            self.send(self.parent, (data, threading.current_thread()))

    def handle_message(self, message: bytes) -> None:
        self.send(self.parent, threading.current_thread())
        self.sock.sendall(message)

    def terminate(self, reason: ExitReason) -> None:
        self.sock.close()


class AsyncLine(MetaProcess):
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def init(self) -> None:
        self.sock.setblocking(False)

    async def start(self) -> None:
        while data := await asyncio.get_running_loop().sock_recv(self.sock, 100):
            self.send(self.parent, (data, threading.current_thread()))

    async def handle_message(self, message: bytes) -> None:
        self.send(self.parent, threading.current_thread())
        await asyncio.get_running_loop().sock_sendall(self.sock, message)

    async def terminate(self, reason: ExitReason) -> None:
        self.sock.close()


# -- two threads of work


def test_the_reader_and_the_handler_have_threads_of_their_own(play: Play) -> None:  # E1
    ours, theirs = pair()

    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        alias = await scene.spawn(Line(ours))
        theirs.sendall(b"in")
        data, reading = await scene.heard()
        assert data == b"in"
        alias.tell(b"out")
        handling = await scene.heard()
        assert len({reading, handling, threading.current_thread()}) == 3
        assert "meta" in system.dispatchers
        assert system.dispatchers.threads["meta"] >= 1
        await system.settle()
        assert theirs.recv(100) == b"out"

    with theirs:
        play(program)


def test_an_async_start_and_async_handlers_take_no_thread(play: Play) -> None:  # E1
    ours, theirs = pair()

    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        before = threading.enumerate()
        alias = await scene.spawn(AsyncLine(ours))
        theirs.sendall(b"in")
        assert await scene.heard() == (b"in", threading.current_thread())
        alias.tell(b"out")
        assert await scene.heard() is threading.current_thread()
        await system.settle()
        assert theirs.recv(100) == b"out"
        assert threading.enumerate() == before

    with theirs:
        play(program)


async def test_an_async_start_goes_with_a_handler_that_blocks(system: ActorSystem) -> None:  # E1
    held = Held()

    class Mixed(MetaProcess):
        async def start(self) -> None:
            await held.entered.wait()
            self.send(self.parent, threading.current_thread())
            held.let_go()
            await asyncio.Event().wait()

        def handle_message(self, message: Any) -> None:
            held.enter()
            self.send(self.parent, threading.current_thread())

    scene = Scene(system)
    alias = await scene.spawn(Mixed())
    alias.tell("block")
    reading, handling = await scene.all_heard(2)
    assert reading is threading.current_thread()
    assert handling is not threading.current_thread()


def test_a_handler_may_block_for_what_the_reader_reads(play: Play) -> None:  # E1
    ours, theirs = pair()
    came = threading.Event()

    class Patient(Line):
        def start(self) -> None:
            while self.sock.recv(100):
                came.set()

        def handle_message(self, message: Any) -> None:
            self.send(self.parent, "blocked")
            assert came.wait(100)
            self.send(self.parent, "went on")

    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        alias = await scene.spawn(Patient(ours))
        alias.tell("wait")
        assert await scene.heard() == "blocked"
        assert await scene.do(lambda ctx: "the system goes on") == "the system goes on"
        assert not came.is_set()
        theirs.sendall(b"x")
        assert await scene.heard() == "went on"

    with theirs:
        play(program)


async def test_handlers_run_one_at_a_time_and_in_order(system: ActorSystem) -> None:  # E1
    meta = Diary()
    scene = Scene(system)
    alias = await scene.spawn(meta)
    for number in range(500):
        alias.tell(number)
    await system.settle()
    assert meta.notes == ["init", *range(500)]


@pytest.mark.config(dispatchers={"meta": Parallel(2)})
async def test_the_pool_of_the_handlers_is_bounded(system: ActorSystem) -> None:  # E1
    lock, both = threading.Lock(), threading.Barrier(2)
    active, most = [0], [0]

    class Blocking(MetaProcess):
        def handle_message(self, message: Any) -> None:
            with lock:
                active[0] += 1
                most[0] = max(most[0], active[0])
            both.wait(100)  # two are here at a time, or nobody goes on
            with lock:
                active[0] -= 1
            both.wait(100)

    scene = Scene(system)
    aliases = [await scene.spawn(Blocking()) for _ in range(6)]
    for alias in aliases:
        alias.tell("block")
    await system.settle()
    assert most == [2]
    assert system.dispatchers.threads["meta"] <= 2


class Refusing(ThreadPoolExecutor):
    def submit(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("asyncio's own threads are not for this")


def test_asyncios_own_threads_are_never_used(play: Play) -> None:  # E1
    ours, theirs = pair()

    async def program(system: ActorSystem) -> None:
        asyncio.get_running_loop().set_default_executor(Refusing())
        scene = Scene(system)
        alias = await scene.spawn(Line(ours))
        for _ in range(10):
            alias.tell(b"out")
        theirs.sendall(b"in")
        assert len(await scene.all_heard(11)) == 11
        assert await alias.inspect() == {}
        alias.stop()
        assert await alias.terminated() == ExitReason(ExitKind.NORMAL)

    with theirs:
        play(program)


async def test_one_without_a_start_lives_until_it_is_stopped(system: ActorSystem) -> None:  # E1
    scene = Scene(system)
    alias = await scene.spawn(Quiet())
    await system.settle()
    assert alias.is_alive
    with pytest.raises(Unhandled):
        await alias.ask("anything")
    alias.tell("anything")
    await system.settle()
    assert alias.is_alive
    alias.stop()
    await scene.probe.expect(Ended(alias, None))


# -- three states


async def test_its_state_follows_what_it_does(system: ActorSystem) -> None:  # E3
    held, seen = Held(), list[MetaState]()

    class Stateful(MetaProcess):
        def init(self) -> None:
            seen.append(self.state)

        def start(self) -> None:
            seen.append(self.state)
            self.send(self.parent, "started")
            self.wait()

        def handle_message(self, message: Any) -> None:
            held.enter()
            seen.append(self.state)

        def handle_call(self, request: Any) -> MetaState:
            return self.state

        def terminate(self, reason: ExitReason) -> None:
            seen.append(self.state)

    meta: Any = Stateful()
    states = [meta.state]
    scene = Scene(system)
    alias = await scene.spawn(meta)
    assert await scene.heard() == "started"
    states.append(meta.state)
    alias.tell("block")
    await held.entered.wait()
    states.append(meta.state)
    held.let_go()
    await system.settle()
    states.append(meta.state)
    assert states == [MetaState.SLEEP, MetaState.SLEEP, MetaState.RUNNING, MetaState.SLEEP]
    assert await alias.ask("state", timeout=None) is MetaState.RUNNING
    alias.stop()
    await alias.terminated()
    assert meta.state is MetaState.TERMINATED
    assert seen == [MetaState.SLEEP, MetaState.SLEEP, MetaState.RUNNING, MetaState.TERMINATED]


@kinds
@pytest.mark.parametrize("asked", [False, True])
async def test_it_is_asleep_again_after_a_handler_that_raised(
    system: ActorSystem, kind: type[Diary], asked: bool
) -> None:  # E3
    scene, meta = Scene(system), kind()
    alias = await scene.spawn(meta)
    if asked:
        with pytest.raises(ValueError, match="bad"):
            await alias.ask(ValueError("bad"), timeout=None)
        assert meta.state is MetaState.SLEEP
    else:
        alias.tell(ValueError("bad"))
        await alias.terminated()
        assert meta.state is MetaState.TERMINATED


@pytest.mark.parametrize(
    "use",
    [
        lambda meta: meta.id,
        lambda meta: meta.parent,
        lambda meta: meta.env,
        lambda meta: meta.log,
        lambda meta: meta.sender,
        lambda meta: meta.send(None, 1),
        lambda meta: meta.spawn(Quiet()),
        lambda meta: meta.wait(),
        lambda meta: meta.wait_readable(0),
        lambda meta: meta.wait_writable(1),
        lambda meta: meta.defer_reply(),
        lambda meta: meta.ask(None, 1),
        lambda meta: meta.link(None),
        lambda meta: meta.monitor(None),
        lambda meta: meta.watch(None),
        lambda meta: setattr(meta, "send_lane", Lane.LOG),
        lambda meta: setattr(meta, "compression", None),
    ],
)
def test_before_it_is_spawned_it_says_so(use: Any) -> None:  # E3
    with pytest.raises(MetaNotSpawned, match="Quiet has not been spawned"):
        use(Quiet())
    assert Quiet().stopping is False


def test_a_manual_clock_need_not_move_for_a_meta_process(play: Play) -> None:  # E1
    ours, theirs = pair()

    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        alias = await scene.spawn(Line(ours))
        theirs.sendall(b"in")
        assert (await scene.heard())[0] == b"in"
        alias.tell(b"out")
        await scene.heard()
        scene.owner.stop()
        await scene.owner.terminated()
        assert ours.fileno() == -1

    with theirs:
        play(program, clock=ManualClock())
