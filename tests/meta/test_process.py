"""Meta-processes: a reader that may block, a handler beside it, their states, settings, and what is urgent to them."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, ExitKind, ExitReason, Lane, MailboxConfig, MailboxFull, ManualClock, Parallel
from greenroom.errors import BadArgument, ConfigError, MetaNotSpawned, Unhandled
from greenroom.meta import Compression, MetaOptions, MetaProcess, MetaState
from tests.meta.owners import AsyncDiary, AsyncOwner, Diary, Ended, Heard, Held, Quiet, Scene, kinds, noted, pair

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


Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The socket of a meta-process, which closes it, and the other end."""
    ours, theirs = pair()
    with theirs:
        yield ours, theirs


# -- two threads of work
async def test_the_reader_and_the_handler_have_threads_of_their_own(system: ActorSystem, ends: Ends) -> None:  # E3, E1
    ours, theirs = ends
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


async def test_an_async_start_and_async_handlers_take_no_thread(system: ActorSystem, ends: Ends) -> None:  # E3, E1
    ours, theirs = ends
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


async def test_an_async_start_goes_with_a_handler_that_blocks(system: ActorSystem) -> None:  # E3, E1
    held = Held()

    class Mixed(MetaProcess):
        async def start(self) -> None:
            await held.entered.wait()
            self.send(self.parent, threading.current_thread())
            held.release()
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


async def test_a_handler_may_block_for_what_the_reader_reads(system: ActorSystem, ends: Ends) -> None:  # E3, E1
    ours, theirs = ends
    came = threading.Event()

    class Patient(Line):
        def start(self) -> None:
            while self.sock.recv(100):
                came.set()

        def handle_message(self, message: Any) -> None:
            self.send(self.parent, "blocked")
            assert came.wait(100)
            self.send(self.parent, "went on")

    scene = Scene(system)
    alias = await scene.spawn(Patient(ours))
    alias.tell("wait")
    assert await scene.heard() == "blocked"
    assert await scene.do(lambda ctx: "the system goes on") == "the system goes on"
    assert not came.is_set()
    theirs.sendall(b"x")
    assert await scene.heard() == "went on"


async def test_handlers_run_one_at_a_time_and_in_order(system: ActorSystem) -> None:  # E3, E1
    meta = Diary()
    scene = Scene(system)
    alias = await scene.spawn(meta)
    for number in range(500):
        alias.tell(number)
    await system.settle()
    assert meta.notes == ["init", *range(500)]


@pytest.mark.config(dispatchers={"meta": Parallel(2)})
async def test_the_pool_of_the_handlers_is_bounded(system: ActorSystem) -> None:  # E3, E1
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


async def test_asyncios_own_threads_are_never_used(system: ActorSystem, ends: Ends) -> None:  # E3, E1
    ours, theirs = ends
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


async def test_one_without_a_start_lives_until_it_is_stopped(system: ActorSystem) -> None:  # E3, E1
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
async def test_its_state_follows_what_it_does(system: ActorSystem) -> None:  # E1, E3
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
    held.release()
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
) -> None:  # E1, E3
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
def test_before_it_is_spawned_it_says_so(use: Any) -> None:  # E1, E3
    with pytest.raises(MetaNotSpawned, match="Quiet has not been spawned"):
        use(Quiet())
    assert Quiet().stopping is False


async def test_a_manual_clock_need_not_move_for_a_meta_process(
    system: ActorSystem, ends: Ends, clock: ManualClock
) -> None:  # E3, E1
    ours, theirs = ends
    scene = Scene(system)
    alias = await scene.spawn(Line(ours))
    theirs.sendall(b"in")
    assert (await scene.heard())[0] == b"in"
    alias.tell(b"out")
    await scene.heard()
    scene.owner.stop()
    await scene.owner.terminated()
    assert ours.fileno() == -1


# -- what it finds out and sets
@pytest.mark.config(env={"a": "system", "b": "system"})
async def test_env_is_its_own_over_its_parents_over_the_systems(system: ActorSystem) -> None:  # E8
    scene = Scene(system, env={"b": "parent", "c": "parent"})
    meta = Quiet()
    await scene.spawn(meta, MetaOptions(env={"c": "own"}))
    assert dict(meta.env) == {"a": "system", "b": "parent", "c": "own"}
    assert sorted(meta.env) == ["a", "b", "c"]
    assert meta.env.get("d", "default") == "default"
    assert await asyncio.to_thread(lambda: meta.env["c"]) == "own"


def test_log_records_say_which_meta_process_logs(play: Play, caplog: pytest.LogCaptureFixture) -> None:  # E8
    class Chatty(MetaProcess):
        def start(self) -> None:
            self.log.warning("reading %d", 1, extra={"more": 2})
            self.wait()

        def handle_message(self, message: Any) -> None:
            self.log.warning("handling %s", message)

    async def program(system: ActorSystem) -> None:
        scene = Scene(system, name="owner")
        alias = await scene.spawn(Chatty(), MetaOptions(name="chatty"))
        alias.tell("it")
        await system.settle()

    with caplog.at_level(logging.INFO):
        system = play(program)
    said = {record.getMessage().removeprefix("/owner/chatty: "): vars(record) for record in caplog.records}
    for words in ("reading 1", "handling it"):
        assert (said[words]["actor"], said[words]["system"]) == ("/owner/chatty", system.name)
        assert isinstance(said[words]["actor_id"], int)
    assert said["reading 1"]["more"] == 2


@kinds
async def test_what_it_sends_goes_by_its_own_lane_unless_it_says_otherwise(
    system: ActorSystem, kind: type[Diary]
) -> None:  # E8
    scene = Scene(system)
    alias = await scene.spawn(kind(), MetaOptions(send_lane=Lane.CONTROL))

    def send(meta: Diary) -> Lane:
        meta.send(meta.parent, "first")
        meta.send(meta.parent, "second", lane=Lane.LOG)
        meta.send_lane = Lane.MANAGEMENT
        meta.send(meta.parent, "third")
        return meta.send_lane

    assert await alias.ask(send, timeout=None) is Lane.MANAGEMENT
    heard = {(await scene.probe.receive()) for _ in range(3)}
    assert {one.message: one.lane for one in heard} == {
        "first": Lane.CONTROL,
        "second": Lane.LOG,
        "third": Lane.MANAGEMENT,
    }
    assert {one.sender for one in heard} == {alias}
    default = Diary()
    await scene.spawn(default)
    assert default.send_lane is Lane.DATA


@kinds
async def test_compression_and_lane_are_checked_when_they_are_set(system: ActorSystem, kind: type[Diary]) -> None:  # E8
    wanted = Compression(enabled=True, kind="lzma", level=1, threshold=10)

    def settle(meta: Diary) -> Any:
        before = meta.compression
        with pytest.raises(ConfigError, match="must be a Compression"):
            meta.compression = "zlib"  # type: ignore[assignment]
        with pytest.raises(BadArgument, match="lane=42"):
            meta.send_lane = 42  # type: ignore[assignment]
        unchanged = before == meta.compression and meta.send_lane is Lane.DATA
        meta.compression = wanted
        return before, unchanged, meta.compression

    alias = await Scene(system).spawn(kind())
    assert await alias.ask(settle, timeout=None) == (Compression(), True, wanted)


async def test_a_full_mailbox_is_an_error_or_is_waited_for(system: ActorSystem) -> None:  # E8
    held = Held()

    class Flood(MetaProcess):
        def start(self) -> None:
            held.enter()
            full: Any = None
            try:
                for number in range(10):
                    self.send(self.parent, number)
            except MailboxFull as exc:
                full = exc.ref
            self.send(self.parent, "waited", wait=True)
            for number in range(50):
                self.send(self.parent, number, wait=True)
            self.send(self.parent, full, wait=True)
            self.wait()

    scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=2))
    alias = await scene.spawn(Flood())
    busy = Held()
    scene.owner.tell(lambda ctx: busy.enter_async())
    await busy.entered.wait()
    held.release()
    await held.entered.wait()
    while system.ledger(scene.owner).rejected == 0:  # noqa: ASYNC110 - nothing tells of a refusal
        await asyncio.sleep(0)
    busy.release()
    heard = [await scene.probe.expect(Heard) for _ in range(54)]
    assert [one.message for one in heard] == [0, 1, "waited", *range(50), scene.owner]
    assert {one.sender for one in heard} == {alias}


# -- urgent things first
@kinds
@pytest.mark.parametrize("inside", [False, True])
async def test_an_inspection_overtakes_what_is_queued(
    system: ActorSystem, kind: type[Diary], inside: bool
) -> None:  # E4
    held = Held()

    class Blocking(Diary):
        def handle_message(self, message: Any) -> None:
            if message == "hold":
                held.enter()
            super().handle_message(message)

    class AsyncBlocking(AsyncDiary):
        async def handle_message(self, message: Any) -> None:
            if message == "hold":
                await held.enter_async()
            await super().handle_message(message)

    scene = Scene(system, AsyncOwner)
    meta = Blocking() if kind is Diary else AsyncBlocking()
    alias = await scene.spawn(meta)
    alias.tell("hold")
    await held.entered.wait()
    for number in range(3):
        alias.tell(number)
    look: Any = scene.do(lambda ctx: alias.inspect("a", "b", timeout=None)) if inside else alias.inspect("a", "b")
    looking = asyncio.ensure_future(look)
    for _ in range(50):
        await asyncio.sleep(0)
    held.release()
    shown = await looking
    assert shown["items"] == ("a", "b")
    await system.settle()
    assert meta.notes == ["init", "hold", "inspect", 0, 1, 2]


@kinds
async def test_more_urgent_lanes_are_served_first(system: ActorSystem, kind: type[Diary]) -> None:  # E4
    scene, meta = Scene(system), kind()

    def all_at_once(ctx: Any) -> Any:
        alias = ctx.spawn_meta(meta)
        for lane in Lane:
            alias.tell(lane.name, lane=lane)
        return alias

    await scene.do(all_at_once)
    await system.settle()
    assert meta.notes == ["init", "CONTROL", "MANAGEMENT", "DATA", "LOG"]


@kinds
async def test_a_stop_overtakes_what_is_queued(system: ActorSystem, kind: type[Diary]) -> None:  # E4
    scene, meta = Scene(system), kind()

    def all_at_once(ctx: Any) -> Any:
        alias = ctx.spawn_meta(meta)
        for number in range(3):
            alias.tell(number)
        alias.stop()
        return alias

    alias = await scene.do(all_at_once)
    assert await alias.terminated() == ExitReason(ExitKind.NORMAL)
    assert meta.notes == ["init", ExitReason(ExitKind.NORMAL)]
    assert noted(meta) == [ExitReason(ExitKind.NORMAL)]
    assert [letter.message for letter in system.dead_letters.recent()] == [0, 1, 2]


async def test_what_is_inspected_from_another_thread_is_the_same(system: ActorSystem) -> None:  # E4
    scene = Scene(system)
    alias = await scene.spawn(Diary())
    shown = await asyncio.to_thread(alias.inspect_sync, "x", timeout=None)
    assert shown == {"items": ("x",), "notes": 2}
    assert await (await scene.spawn(Quiet())).inspect("x", timeout=None) == {}
