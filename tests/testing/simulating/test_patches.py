"""What a simulation puts in the place of time, chance, threads and I/O; it has its own systems, and no others (B1)."""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import gc
import logging
import multiprocessing
import os
import queue
import random
import secrets
import socket
import subprocess
import threading
import time
import urllib.request
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context
from greenroom.errors import GreenroomError, SimulationRefused, SimulationStuck, WaitsForItself
from greenroom.testing import ActorHarness, Simulation, assert_ledger_balanced

REPLACED: list[tuple[Any, str]] = [
    *((time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")),
    (time, "sleep"),
    (os, "urandom"),
    (random, "_urandom"),
    (random.Random, "seed"),
    (threading.Thread, "start"),
    (threading.Condition, "wait"),
]


def world() -> list[Any]:
    """Everything that a simulation might leave otherwise than it was."""
    held = [getattr(owner, name) for owner, name in REPLACED]
    return [*held, random.getstate(), gc.isenabled(), asyncio._get_running_loop(), gc.get_threshold()]


async def fine(system: ActorSystem) -> str:
    random.random()
    await asyncio.sleep(1)
    return "fine"


async def raises(system: ActorSystem) -> None:
    random.seed(3)
    raise ValueError("on purpose")


async def interrupted(system: ActorSystem) -> None:
    gc.enable()
    raise KeyboardInterrupt


async def stuck(system: ActorSystem) -> None:
    await asyncio.Event().wait()


async def no_program(system: ActorSystem) -> Any:
    return Simulation().run(fine)


@pytest.mark.parametrize("program", [fine, raises, interrupted, stuck])
def test_everything_is_given_back_however_it_ends(program: Any) -> None:
    before = world()
    errors = (ValueError, KeyboardInterrupt, SimulationStuck)
    try:
        Simulation().run(program)
    except errors:
        assert program is not fine
    assert world() == before


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        Simulation().run(fine)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_session_leaves_the_thread_as_it_was_between_its_steps() -> None:
    before = world()
    with Simulation(1).open() as session:
        assert world() == before
        ref = session.system.spawn(lambda ctx, message: random.random())
        assert world() == before
        session.advance(60)
        first = session.run(lambda: ref.ask(0))
        random.random()
        second = session.run(lambda: ref.ask(0))
    with Simulation(1).open() as session:
        ref = session.system.spawn(lambda ctx, message: random.random())
        session.advance(60)
        assert [session.run(lambda: ref.ask(0)), session.run(lambda: ref.ask(0))] == [first, second]


def test_other_threads_see_real_time_and_may_do_what_they_like() -> None:
    go, done = threading.Event(), threading.Event()
    seen: list[Any] = []

    def look() -> None:
        go.wait()
        before = time.monotonic()
        time.sleep(0.0)
        other = threading.Thread(target=lambda: seen.append("a thread"))
        other.start()
        other.join()
        socket.socket().close()
        seen.append((time.time() > 1_000_000_000, before <= time.monotonic() < before + 3600, random.Random().random()))
        done.set()

    async def program(system: ActorSystem) -> None:
        await asyncio.sleep(1e8)
        go.set()
        while not done.is_set():
            pass

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        Simulation().run(program)
    finally:
        go.set()
        watcher.join()
    assert seen[0] == "a thread"
    assert seen[1][:2] == (True, True)


def test_a_message_from_another_thread_is_refused_there() -> None:
    go, done = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    async def program(system: ActorSystem) -> list[Any]:
        got: list[Any] = []
        refs.append(system.spawn(lambda ctx, message: got.append(message)))
        await system.settle()
        go.set()
        while not done.is_set():
            pass
        return got

    def send() -> None:
        go.wait()
        try:
            refs[0].tell("hello")
        except BaseException as exc:
            raised.append(exc)
        done.set()

    refs: list[Any] = []
    sender = threading.Thread(target=send)
    sender.start()
    try:
        Simulation().run(program)
    finally:
        go.set()
        sender.join()
    assert [type(exc) for exc in raised] == [SimulationRefused]


# -- inside a loop, inside a simulation, and with several systems
def test_it_runs_inside_a_running_loop_and_leaves_that_as_it_was() -> None:
    async def program(system: ActorSystem) -> float:
        await asyncio.sleep(DAY)
        return asyncio.get_running_loop().time()

    async def main() -> tuple[float, str]:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        soon: asyncio.Future[str] = loop.create_future()
        loop.call_soon(soon.set_result, "soon")
        before = loop.time()
        passed = Simulation().run(program)
        assert (asyncio.get_running_loop(), asyncio.current_task()) == (loop, task)
        assert loop.time() - before < DAY
        async with asyncio.timeout(60):
            return passed, await soon

    DAY = 86_400.0  # noqa: N806 - as elsewhere
    assert asyncio.run(main()) == (DAY, "soon")


def test_a_simulation_inside_a_simulation_is_refused() -> None:
    with pytest.raises(WaitsForItself, match="one after the other"):
        Simulation().run(no_program)


@pytest.mark.parametrize("begin", [lambda: Simulation().run(fine), lambda: Simulation().open()])
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_refused_simulation_leaves_nothing_open(begin: Callable[[], object]) -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(WaitsForItself):
            begin()

    Simulation().run(program)
    gc.collect()  # what was left open complains now


def test_an_actor_cannot_simulate_either() -> None:
    def simulate(ctx: Any, message: object) -> str:
        return Simulation().run(fine)

    async def program(system: ActorSystem) -> None:
        await system.spawn(simulate).ask(1)

    with pytest.raises(WaitsForItself):
        Simulation().run(program)


def test_several_systems_share_one_simulation() -> None:
    async def main() -> tuple[list[float], int]:
        async with ActorSystem("one") as one, ActorSystem("other") as other:

            async def slow(ctx: Any, seconds: float) -> float:
                await asyncio.sleep(seconds)
                return float(ctx.now())

            far = other.spawn(slow, name="far")

            class Near(Actor[float, float]):
                async def receive(self, seconds: float) -> float:
                    return float(await far.ask(seconds, timeout=None)) + 0.5

            near = one.spawn(Near, name="near")
            answers = await asyncio.gather(near.ask(10.0, timeout=None), far.ask(5.0, timeout=None))
            return list(answers), len({one.random.random(), other.random.random()})

    for seed in range(10):
        simulation = Simulation(seed)
        answers, _ = simulation.run_main(main)
        assert answers in ([10.5, 15.0], [15.5, 5.0])
        digest = simulation.trace.digest
        simulation.run_main(main)
        assert simulation.trace.digest == digest


# -- chance
def test_chance_of_every_kind_is_the_same_again() -> None:
    async def program(system: ActorSystem) -> list[Any]:
        shuffled = list(range(20))
        random.shuffle(shuffled)
        return [
            random.random(),
            random.Random().random(),
            random.SystemRandom().random(),
            secrets.token_bytes(20),
            secrets.choice(range(10**9)),
            os.urandom(7),
            uuid.uuid4(),
            shuffled,
        ]

    first, again, other = Simulation(1).run(program), Simulation(1).run(program), Simulation(2).run(program)
    assert first == again
    assert all(one != another for one, another in zip(first, other, strict=True))


def test_a_generator_with_a_seed_of_its_own_is_left_alone() -> None:
    async def program(system: ActorSystem) -> tuple[float, float]:
        random.seed(7)
        return random.Random(7).random(), random.random()

    assert Simulation(1).run(program) == Simulation(2).run(program) == (random.Random(7).random(),) * 2


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64])
def test_as_many_random_bytes_come_as_were_wanted(count: int) -> None:
    async def program(system: ActorSystem) -> bytes:
        return os.urandom(count)

    assert len(Simulation().run(program)) == count


# -- what is refused
def submit() -> object:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(print)


def watch_a_pipe() -> object:
    return asyncio.get_running_loop().add_reader(0, print)


REFUSED: dict[str, Callable[[], Any]] = {
    "a thread": lambda: threading.Thread(target=print).start(),
    "a low level thread": lambda: _thread.start_new_thread(int, ()),
    "a timer thread": lambda: threading.Timer(1, print).start(),
    "a pool of threads": submit,
    "to_thread": lambda: asyncio.to_thread(print),
    "an executor": lambda: asyncio.get_running_loop().run_in_executor(None, print),
    "a system on its own thread": lambda: ActorSystem("other").__enter__(),
    "a socket": lambda: socket.socket(),
    "a connection": lambda: socket.create_connection(("localhost", 9)),
    "a host by name": lambda: socket.gethostbyname("localhost"),
    "a host by address": lambda: socket.gethostbyaddr("127.0.0.1"),
    "a url": lambda: urllib.request.urlopen("http://localhost:9"),
    "open_connection": lambda: asyncio.open_connection("localhost", 9),
    "start_server": lambda: asyncio.start_server(print, "localhost", 0),
    "a datagram endpoint": lambda: asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, ("localhost", 9)
    ),
    "an fd": watch_a_pipe,
    "a signal": lambda: asyncio.get_running_loop().add_signal_handler(2, print),
    "another loop": lambda: asyncio.new_event_loop(),
    "subprocess": lambda: subprocess.run(["true"], check=False),
    "an asyncio subprocess": lambda: asyncio.create_subprocess_exec("true"),
    "os.system": lambda: os.system("true"),
    "os.fork": lambda: os.fork() or os._exit(0),
    "os.posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "a forked process": lambda: multiprocessing.get_context("fork").Process(target=print).start(),
    "a spawned process": lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
    "an event of threads": lambda: threading.Event().wait(),
    "an event with a timeout": lambda: threading.Event().wait(5),
    "a queue of threads": lambda: queue.Queue[int]().get(),
    "a semaphore": lambda: threading.Semaphore(0).acquire(),
    "a barrier": lambda: threading.Barrier(2).wait(),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what was half made
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_repeated_is_refused_and_it_says_what_to_use(what: str) -> None:
    async def program(system: ActorSystem) -> None:
        made = REFUSED[what]()
        if hasattr(made, "__await__"):
            await made

    with pytest.raises(SimulationRefused, match=r"inside a simulation: .+(actor|await|call)"):
        Simulation().run(program)
    gc.collect()


def test_an_actor_that_is_refused_fails_like_any_other() -> None:
    def start_thread(ctx: Any, message: object) -> None:
        threading.Thread(target=print).start()

    async def program(system: ActorSystem) -> None:
        await system.spawn(start_thread).ask(1)

    with pytest.raises(SimulationRefused) as raised:
        Simulation().run(program)
    assert isinstance(raised.value, GreenroomError)
    assert raised.value.code == "simulation_refused"


def test_a_look_that_does_not_wait_is_allowed() -> None:
    async def program(system: ActorSystem) -> tuple[Any, ...]:
        event = threading.Event()
        unset = event.wait(0)
        event.set()
        box: queue.Queue[int] = queue.Queue()
        box.put(1)
        return unset, event.wait(), box.get(), threading.Semaphore(1).acquire(), threading.Lock().acquire()

    assert Simulation().run(program) == (False, True, 1, True, True)


def test_files_are_read_and_written_as_ever(tmp_path: Any) -> None:
    async def program(system: ActorSystem) -> str:
        file = tmp_path / "file"
        file.write_text("text")
        text: str = file.read_text()
        return text

    assert Simulation().run(program) == "text"


Ref = ActorRef[Any, Any]


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


async def tell(ref: Ref) -> None:
    ref.tell("hello")


async def tell_by_operator(ref: Ref) -> None:
    ref << "hello"


async def send(ref: Ref) -> None:
    await ref.send("hello")


async def ask(ref: Ref) -> None:
    await ref.ask("hello", timeout=1.0)


async def ask_without_waiting(ref: Ref) -> None:
    ref.ask("hello")


async def stop(ref: Ref) -> None:
    ref.stop()


async def kill(ref: Ref) -> None:
    ref.kill()


async def fail(ref: Ref) -> None:
    ref.fail(ValueError("bad"))


async def await_start(ref: Ref) -> None:
    await ref.started()


async def await_end(ref: Ref) -> None:
    await ref.terminated()


async def inspect(ref: Ref) -> None:
    await ref.inspect()


WAYS = [tell, tell_by_operator, send, ask, ask_without_waiting, stop, kill, fail, await_start, await_end, inspect]
every_way = pytest.mark.parametrize("reach", WAYS)
Reach = Callable[[Ref], Awaitable[None]]


@pytest.fixture
def other() -> Iterator[ActorSystem]:
    """A system on a thread of its own, which must not notice anything."""
    with ActorSystem("other") as system:
        yield system
    assert_ledger_balanced(system)


def reaching(reach: Reach, ref: Ref) -> Callable[[ActorSystem], Any]:
    async def by_an_actor(ctx: Context, message: Any) -> None:
        with pytest.raises(SimulationRefused, match="of other"):
            await reach(ref)

    async def program(system: ActorSystem) -> None:
        with pytest.raises(SimulationRefused, match=r"/echo of other.*is real.*harness\.inbox\(\)"):
            await reach(ref)
        await system.spawn(by_an_actor).ask("go")

    return program


@every_way
def test_whoever_reaches_for_a_real_system_is_refused(
    other: ActorSystem, reach: Reach, caplog: pytest.LogCaptureFixture
) -> None:
    echo = other.spawn(Echo, name="echo")
    with caplog.at_level(logging.WARNING):
        Simulation().run(reaching(reach, echo))
        assert echo.ask_sync("still there?") == "still there?"
    assert caplog.records == []
    assert other.ledger().sent == 1


@every_way
@pytest.mark.anyio
async def test_so_is_who_reaches_for_one_on_the_same_thread(reach: Reach) -> None:
    async with ActorSystem("other") as other:
        echo = other.spawn(Echo, name="echo")
        Simulation().run(reaching(reach, echo))
        assert await echo.ask("still there?") == "still there?"
        assert other.ledger().sent == 1


def test_nothing_is_spawned_in_a_real_system_either(other: ActorSystem) -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(SimulationRefused, match="another system"):
            other.spawn(Echo)
        with pytest.raises(SimulationRefused, match="another system"):
            other.snapshot()

    Simulation().run(program)
    assert other.snapshot().actors == ()


def test_a_message_is_not_forwarded_to_a_real_system(other: ActorSystem) -> None:
    echo = other.spawn(Echo, name="echo")

    def forward(ctx: Context, message: Any) -> None:
        with pytest.raises(SimulationRefused):
            ctx.forward(echo)
        seen.append(message)

    async def program(system: ActorSystem) -> None:
        system.spawn(forward).tell("told")
        await system.settle()

    seen: list[Any] = []
    Simulation().run(program)
    assert seen == ["told"]
    assert other.ledger().sent == 0


@pytest.mark.parametrize("reach", [tell, ask])
def test_an_actor_under_test_is_refused_too(other: ActorSystem, reach: Reach, caplog: pytest.LogCaptureFixture) -> None:
    echo = other.spawn(Echo, name="echo")

    async def reacher(ctx: Context, message: Any) -> None:
        await reach(echo)

    with ActorHarness(reacher) as harness, pytest.raises(SimulationRefused, match=r"harness\.inbox\(\)"):
        harness.ask("go")
    assert harness.sent == []
    assert [record.name for record in caplog.records if record.name != "greenroom"] == []
    assert echo.ask_sync("still there?") == "still there?"


def test_between_two_calls_of_a_harness_a_test_talks_to_whom_it_likes(other: ActorSystem) -> None:
    echo = other.spawn(Echo)
    with ActorHarness(Echo) as harness:
        harness.tell(1)
        assert echo.ask_sync(2) == 2
        assert harness.ask(3) == 3


def test_two_simulations_of_one_thread_may_talk() -> None:
    with Simulation().open() as here, Simulation().open() as there:
        echo = there.system.spawn(Echo)

        async def tell_there() -> None:
            echo.tell("hello")

        here.run(tell_there)
        there.settle()
        assert there.system.ledger(echo).handled == 1
