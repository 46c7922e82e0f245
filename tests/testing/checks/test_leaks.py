"""`detect_leaks`: a test fails when something that it started outlives it; what is a leak, and what is not (M19)."""

from __future__ import annotations

import _thread
import asyncio
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, Context, SystemConfig
from greenroom.errors import BadArgument, InvalidDelay
from greenroom.testing import Leak, LeaksFound, TestProbe, detect_leaks
from greenroom.testing.checks import leaks

if TYPE_CHECKING:
    from tests.conftest import Play

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the machine does not tell what is open")


def note(ctx: Context, message: Any) -> None:
    pass


def kinds_and_names(found: LeaksFound) -> list[tuple[str, str]]:
    return [(leak.kind, leak.name) for leak in found.leaks]


async def checked(body: Callable[[], Coroutine[Any, Any, None]], **options: Any) -> None:
    async with detect_leaks(**{"patience": 0.0, **options}):
        await body()


async def leaks_of(body: Callable[[], Coroutine[Any, Any, None]], **options: Any) -> LeaksFound:
    with pytest.raises(LeaksFound) as found:
        await checked(body, **options)
    return found.value


class Held:
    """A thread that runs until it is let go."""

    def __init__(self, name: str) -> None:
        self.release = threading.Event()
        self.thread = threading.Thread(target=self.release.wait, args=(20.0,), name=name, daemon=True)
        self.thread.start()

    def end(self) -> None:
        self.release.set()
        self.thread.join()


# -- what is no leak


async def test_a_test_that_cleans_up_passes(play: Play) -> None:
    async with detect_leaks():
        async with ActorSystem() as system:
            probe = TestProbe(system)
            system.spawn(note).tell("x")
            task = asyncio.create_task(probe.receive())
            probe.ref.tell("y")
            assert await task == "y"
        await asyncio.to_thread(Held("short").end)  # on a thread of asyncio's own pool, which stays


def test_a_test_without_asyncio_that_cleans_up_passes() -> None:
    with detect_leaks():
        with ActorSystem() as system:
            system.spawn(note).tell("x")
        Held("short").end()
        asyncio.run(asyncio.sleep(0))


async def test_what_was_there_before_is_no_leak(play: Play) -> None:
    held = Held("old")
    task = asyncio.create_task(asyncio.Event().wait())
    ends = socket.socketpair()
    async with ActorSystem() as system:
        system.spawn(note)
        async with detect_leaks(patience=0.0):
            pass
        with detect_leaks(patience=0.0):
            pass
    for end in ends:
        end.close()
    held.end()
    task.cancel()


async def test_a_system_that_has_stopped_or_was_never_used_is_no_leak(play: Play) -> None:
    kept: list[ActorSystem] = []
    async with detect_leaks(patience=0.0):
        kept.append(ActorSystem())
        async with ActorSystem() as system:
            kept.append(system)
            system.spawn(note)


def test_garbage_is_no_leak() -> None:
    class Loop:
        def __init__(self, what: Any) -> None:
            self.myself = self
            self.what = what

        def __del__(self) -> None:
            if isinstance(self.what, int):
                os.close(self.what)

    with detect_leaks(patience=0.0):
        system = ActorSystem()
        system.spawn(note)
        Loop(system)
        Loop(os.open("/dev/null", os.O_RDONLY))
        del system


# -- what is


async def test_a_system_that_runs_on_is_a_leak_and_so_are_its_actors(play: Play) -> None:
    system = ActorSystem("demo")

    async def body() -> None:
        await system.__aenter__()
        system.spawn(note, name="worker")

    found = await leaks_of(body)
    assert kinds_and_names(found) == [("system", "demo"), ("actor", "/worker")]
    assert str(found).splitlines() == [
        "2 things outlive the test:",
        "  system demo, which is running",
        "    leave the system's `async with` or `with`, or await `system.shutdown()`",
        "  actor /worker of the system demo, which is running",
        "    stop the actor and await `ref.terminated()`",
        "What is meant to stay is allowed by detect_leaks(ignore=[...]), a name or a pattern of it.",
    ]
    await system.shutdown()


async def test_an_actor_that_is_left_in_a_system_of_before_is_a_leak(system: ActorSystem) -> None:
    first = system.spawn(note, name="first")

    async def body() -> None:
        first.stop()
        await first.terminated()
        system.spawn(note, name="second")  # it has the first one's slot, but it is another
        system.spawn(note).stop()
        await system.settle()

    assert kinds_and_names(await leaks_of(body)) == [("actor", "/second")]


def test_an_actor_that_is_left_on_a_further_loop_is_a_leak() -> None:
    async def main() -> None:
        async def body() -> None:
            for number in range(4):
                await system.spawn(note, name=f"left-{number}", dispatcher="spread").started()

        async with ActorSystem("spread", config=SystemConfig(loops=2)) as system:
            await system.spawn(note, name="first").started()
            found = await leaks_of(body)
        assert sorted(kinds_and_names(found)) == [("actor", f"/left-{number}") for number in range(4)]

    asyncio.run(main())


async def test_an_actor_that_is_about_to_end_has_time_to(system: ActorSystem) -> None:
    async with detect_leaks():
        system.spawn(note).stop()


async def test_the_actors_of_a_system_that_was_never_started_are_a_leak(play: Play) -> None:
    system = ActorSystem("idle")

    async def body() -> None:
        system.spawn(note, name="worker")

    assert "actor /worker of the system idle, which is not started" in str(await leaks_of(body))
    await system.shutdown()


def test_a_system_on_a_thread_of_its_own_is_found_even_if_it_is_stuck() -> None:
    entered, release = threading.Event(), threading.Event()

    def stuck(ctx: Context, message: Any) -> None:
        entered.set()
        release.wait(120.0)

    system = ActorSystem("elsewhere")
    detector = detect_leaks(patience=0.0, fds=False)
    detector.__enter__()
    system.__enter__()
    system.spawn(stuck, name="stuck").tell("x")
    entered.wait(120.0)
    with pytest.raises(LeaksFound) as found:
        detector.__exit__(None, None, None)
    assert kinds_and_names(found.value) == [("system", "elsewhere"), ("actor", "/stuck"), ("thread", "elsewhere")]
    release.set()
    system.close()


async def tick() -> None:
    await asyncio.Event().wait()


async def test_a_task_that_is_left_is_a_leak(play: Play) -> None:
    tasks = []

    async def body() -> None:
        tasks.append(asyncio.create_task(tick(), name="forgotten"))

    found = await leaks_of(body)
    assert kinds_and_names(found) == [("task", "forgotten")]
    assert re.search(r"task forgotten, in tick\(\) at .*test_leaks\.py:\d+", str(found))
    assert "async with detect_leaks" not in str(found)
    tasks[0].cancel()


async def test_a_task_that_is_about_to_end_has_time_to_in_an_async_with_only(play: Play) -> None:
    async with detect_leaks():
        asyncio.create_task(tick()).cancel()
    with (
        pytest.raises(LeaksFound, match="have a chance to end in `async with detect_leaks"),
        detect_leaks(patience=0.0),
    ):
        asyncio.create_task(tick()).cancel()


def test_a_thread_that_is_left_is_a_leak() -> None:
    held = []
    with pytest.raises(LeaksFound, match="thread forgotten, a daemon") as found, detect_leaks(patience=0.0):
        held.append(Held("forgotten"))
    assert kinds_and_names(found.value) == [("thread", "forgotten")]
    held[0].end()


def test_a_thread_of_asyncios_pool_is_a_leak_when_its_loop_is_gone() -> None:
    held = []
    with pytest.raises(LeaksFound, match="thread asyncio_0"), detect_leaks(patience=0.0):
        held.append(Held("asyncio_0"))
    held[0].end()


async def test_a_thread_that_is_about_to_end_has_time_to(play: Play) -> None:
    with detect_leaks():
        Held("ending").release.set()
    async with detect_leaks():
        Held("ending").release.set()


async def test_the_threads_of_a_pool_of_ones_own_are_a_leak(play: Play) -> None:
    pool = ThreadPoolExecutor(1, thread_name_prefix="mine")

    async def body() -> None:
        await asyncio.get_running_loop().run_in_executor(pool, int)

    assert kinds_and_names(await leaks_of(body)) == [("thread", "mine_0")]
    pool.shutdown()


@needs_proc
async def test_what_is_left_open_is_a_leak(play: Play, tmp_path: Path) -> None:
    left: list[Any] = []

    async def body() -> None:
        left.append((tmp_path / "notes").open("w"))
        left.extend(socket.socketpair())
        os.close(os.open("/dev/null", os.O_RDONLY))

    found = kinds_and_names(await leaks_of(body))
    assert {kind for kind, _ in found} == {"fd"}
    names = sorted(name for _, name in found)
    assert names[0] == str(tmp_path / "notes")
    assert [name.startswith("socket:[") for name in names[1:]] == [True, True]
    for one in left:
        one.close()


def test_where_the_machine_does_not_tell_open_files_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(leaks, "_OPEN_FILES", tmp_path / "nowhere")
    with detect_leaks(patience=0.0):
        file = (tmp_path / "notes").open("w")
    file.close()


# -- what is allowed, and what passes


@pytest.mark.parametrize(
    "ignore", ["forgotten", ["other", "forgot*"], "tick", "*ick", ("/w*", "forgotten"), iter(["forgotten"])]
)
def test_what_is_meant_to_stay_can_be_named(play: Play, ignore: Any) -> None:
    async def main() -> None:
        async with detect_leaks(ignore=ignore, patience=0.0):
            task = asyncio.create_task(tick(), name="forgotten")
        task.cancel()

    if not hasattr(ignore, "__next__") or play.backend == "asyncio":  # an iterator is good for one run
        play.bare(main)


@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        (["demo", "/worker*"], []),
        (["demo*"], []),
        (["demo"], ["/worker", "/worker/child"]),
        (["demo", "/worker"], ["/worker/child"]),
        (["demo/worker/*", "demo"], ["/worker"]),
        (["DEMO"], ["demo", "/worker", "/worker/child"]),
    ],
)
async def test_systems_and_actors_are_named_by_name_and_path(play: Play, ignore: list[str], left: list[str]) -> None:
    system = ActorSystem("demo")

    async def body() -> None:
        await system.__aenter__()
        worker = system.spawn(note, name="worker")
        system.spawn(note, name="child", parent=worker)

    if left:
        assert [leak.name for leak in (await leaks_of(body, ignore=ignore)).leaks] == left
    else:
        await checked(body, ignore=ignore)
    await system.shutdown()


@pytest.mark.parametrize("kind", ["actors", "tasks", "threads", pytest.param("fds", marks=needs_proc)])
async def test_each_kind_can_be_left_out(system: ActorSystem, kind: str, tmp_path: Path) -> None:
    left: list[Any] = []

    async def body() -> None:
        system.spawn(note)
        left.append((asyncio.create_task(tick()), Held("thread"), (tmp_path / "notes").open("w")))

    none = dict.fromkeys(["actors", "tasks", "threads", "fds"], False)
    await checked(body, **none)
    found = await leaks_of(body, **{**none, kind: True})
    assert [leak.kind for leak in found.leaks] == [kind.rstrip("s")]
    for task, held, file in left:
        task.cancel()
        held.end()
        file.close()


async def test_what_the_test_itself_raises_passes(play: Play) -> None:
    held = []
    error = KeyError("mine")

    async def body() -> None:
        held.append(Held("forgotten"))
        raise error

    async def in_plain_with() -> None:
        with detect_leaks(patience=0.0):
            await body()

    for attempt in (lambda: checked(body), in_plain_with):
        with pytest.raises(KeyError) as caught:
            await attempt()
        assert caught.value is error
        assert error.__context__ is None
    for one in held:
        one.end()


async def test_of_many_leaks_not_all_are_told(system: ActorSystem) -> None:
    async def body() -> None:
        for _ in range(25):
            system.spawn(note)

    found = await leaks_of(body)
    assert len(found.leaks) == 25
    assert str(found).count("actor /note$") == 20
    assert "and 5 more of the kind" in str(found)


def test_a_leak_can_be_read() -> None:
    assert str(Leak("thread", "pool-1", ", a daemon")) == "thread pool-1, a daemon"
    assert isinstance(LeaksFound((Leak("thread", "pool-1"),)), AssertionError)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadArgument, match="not 5"):
        detect_leaks(ignore=[5])  # type: ignore[list-item]
    with pytest.raises(InvalidDelay):
        detect_leaks(patience=-1.0)


PATIENCE = 120.0
"""Seconds to wait for what comes at once unless something is wrong."""


needs_children = pytest.mark.skipif(
    not any(Path("/proc/self/task").glob("*/children")), reason="the machine does not tell of children"
)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Set at the end of the test, for threads that wait for it."""
    event = threading.Event()
    yield event
    event.set()


def found_in(body: Callable[[], object], **options: Any) -> list[tuple[str, str]]:
    """The leaks of `body`, in a plain `with`."""
    try:
        with detect_leaks(**{"patience": 0.0, **options}):
            body()
    except LeaksFound as found:
        return [(leak.kind, leak.name) for leak in found.leaks]
    return []


async def found_inside(body: Callable[[], Coroutine[Any, Any, object]], **options: Any) -> list[Leak]:
    """The leaks of `body()`, in an `async with`."""
    try:
        async with detect_leaks(**{"patience": 0.0, **options}):
            await body()
    except LeaksFound as found:
        return list(found.leaks)
    return []


def run_elsewhere(code: str) -> str:
    """What a fresh process prints that runs `code`: some things are opened only once in each."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60.0,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    return done.stdout.strip()


# -- threads


@pytest.mark.real
async def test_an_idle_thread_of_the_running_loops_pool_is_no_leak(play: Play) -> None:
    for _ in range(2):
        async with detect_leaks():
            await asyncio.to_thread(int)
            await asyncio.gather(*(asyncio.to_thread(int) for _ in range(5)))


@pytest.mark.real
async def test_a_pool_that_the_loop_was_given_is_its_own(play: Play) -> None:
    async with detect_leaks():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1, thread_name_prefix="mine"))
        await asyncio.to_thread(int)


@pytest.mark.real
async def test_a_thread_of_the_running_loops_pool_that_is_at_work_is_a_leak(
    play: Play, release: threading.Event
) -> None:
    entered = asyncio.Event()
    loop = asyncio.get_running_loop()
    release.clear()

    def hold() -> None:
        loop.call_soon_threadsafe(entered.set)
        release.wait(PATIENCE)

    async def body() -> None:
        loop.run_in_executor(None, hold)
        await entered.wait()

    (leak,) = await found_inside(body)
    assert leak.kind == "thread"
    assert str(leak).endswith("_0, of the running loop's pool, which is at work")
    release.set()


@pytest.mark.real
@pytest.mark.parametrize("name", ["asyncio_0", "uvloop_bridge"])
async def test_a_thread_is_not_excused_for_its_name(play: Play, name: str, release: threading.Event) -> None:
    threads: list[threading.Thread] = []

    def start(ctx: Context, message: Any) -> None:
        threads.append(threading.Thread(target=release.wait, args=(PATIENCE,), name=name))
        threads[-1].start()

    async def body() -> None:
        async with ActorSystem() as system:
            system.spawn(start).tell("go")
            await system.settle()

    (leak,) = await found_inside(body)
    assert (leak.kind, leak.name) == ("thread", name)
    release.set()
    for thread in threads:
        thread.join()


@pytest.mark.real
async def test_an_idle_thread_of_another_loops_pool_is_a_leak(play: Play) -> None:
    other = play.loop_factory()
    pool = ThreadPoolExecutor(1, thread_name_prefix="asyncio")
    other.set_default_executor(pool)

    async def body() -> None:
        pool.submit(int).result(PATIENCE)

    assert [leak.name for leak in await found_inside(body)] == ["asyncio_0"]
    pool.shutdown()
    other.close()


def test_a_thread_that_threading_does_not_know_is_a_leak() -> None:
    entered, left = threading.Lock(), threading.Lock()  # an Event would make the thread known

    def hold() -> None:
        entered.release()
        left.acquire()

    def start() -> None:
        _thread.start_new_thread(hold, ())
        entered.acquire(timeout=PATIENCE)

    entered.acquire()
    left.acquire()
    ((kind, name),) = found_in(start)
    assert (kind, name.isdecimal()) == ("thread", True)
    left.release()
    with detect_leaks():  # it ends, and is not missed
        pass


# -- files


@needs_proc
def test_a_file_that_is_renamed_or_removed_while_it_is_open_is_no_leak(tmp_path: Path) -> None:
    with (tmp_path / "app.log").open("w") as kept, (tmp_path / "scratch").open("w") as removed:

        def rotate() -> None:
            (tmp_path / "app.log").rename(tmp_path / "app.log.1")
            (tmp_path / "scratch").unlink()

        assert found_in(rotate) == []
        assert [file.closed for file in (kept, removed)] == [False, False]


@needs_proc
def test_another_file_in_the_place_of_one_that_was_open_is_a_leak(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    old = (tmp_path / "old").open("w")
    number = old.fileno()
    left: list[Any] = []

    def replace() -> None:
        old.close()
        left.append((tmp_path / "new").open())

    assert found_in(replace) == [("fd", str(tmp_path / "new"))]
    assert left[0].fileno() == number
    left[0].close()


@needs_proc
@pytest.mark.parametrize("block", ["with", "async with"])
def test_the_first_loop_of_uvloop_in_a_process_is_no_leak(block: str) -> None:
    pytest.importorskip("uvloop")
    code = """
import asyncio
from greenroom import ActorSystem
from greenroom.testing import detect_leaks

def use():
    with ActorSystem():
        pass

async def main():
    async with detect_leaks():
        await asyncio.to_thread(use)

if BLOCK == "with":
    with detect_leaks():
        use()
else:
    asyncio.run(main())
print("clean")
"""
    assert run_elsewhere(code.replace("BLOCK", repr(block))) == "clean"


# -- processes


@needs_children
def test_a_process_that_runs_on_is_a_leak() -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        process = subprocess.Popen(["sleep", "20"])
        started.append(process)
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.001)  # it has a name a moment before it has arguments

    try:
        told = r"process sleep, number \d+: sleep 20\n    end the process, and wait for it"
        with pytest.raises(LeaksFound, match=told), detect_leaks(patience=0.0):
            start()
        assert found_in(start) == [("process", "sleep")]
        assert found_in(start, ignore="sleep 2?") == []
        assert found_in(start, processes=False) == []
        assert found_in(lambda: None) == []
    finally:
        for process in started:
            process.kill()
            process.wait()


@needs_children
def test_a_process_that_has_ended_is_no_leak() -> None:
    with detect_leaks():
        process = subprocess.Popen(["true"])
    process.wait()
    assert found_in(lambda: subprocess.run(["true"], check=True)) == []


@needs_proc
def test_what_multiprocessing_keeps_for_all_is_no_leak() -> None:
    code = """
import multiprocessing
from greenroom.testing import detect_leaks

with detect_leaks():
    process = multiprocessing.get_context("spawn").Process(target=int)
    process.start()
    process.join()
    process.close()
print("clean")
"""
    assert run_elsewhere(code) == "clean"
    assert multiprocessing.active_children() == []
