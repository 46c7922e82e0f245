"""What `detect_leaks` takes for a leak and what not: threads of pools, files that move, processes (M19)."""

from __future__ import annotations

import _thread
import asyncio
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, Context
from greenroom.testing import Leak, LeaksFound, detect_leaks

if TYPE_CHECKING:
    from tests.conftest import Play

PATIENCE = 120.0
"""Seconds to wait for what comes at once unless something is wrong."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the machine does not tell what is open")

needs_children = pytest.mark.skipif(
    not any(Path("/proc/self/task").glob("*/children")), reason="the machine does not tell of children"
)


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
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
def test_an_idle_thread_of_the_running_loops_pool_is_no_leak(play: Play) -> None:
    async def main() -> None:
        for _ in range(2):
            async with detect_leaks():
                await asyncio.to_thread(int)
                await asyncio.gather(*(asyncio.to_thread(int) for _ in range(5)))

    play.bare(main)


@pytest.mark.real
def test_a_pool_that_the_loop_was_given_is_its_own(play: Play) -> None:
    async def main() -> None:
        async with detect_leaks():
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1, thread_name_prefix="mine"))
            await asyncio.to_thread(int)

    play.bare(main)


@pytest.mark.real
def test_a_thread_of_the_running_loops_pool_that_is_at_work_is_a_leak(play: Play, let_go: threading.Event) -> None:
    async def main() -> None:
        entered = asyncio.Event()
        loop = asyncio.get_running_loop()
        let_go.clear()

        def hold() -> None:
            loop.call_soon_threadsafe(entered.set)
            let_go.wait(PATIENCE)

        async def body() -> None:
            loop.run_in_executor(None, hold)
            await entered.wait()

        (leak,) = await found_inside(body)
        assert leak.kind == "thread"
        assert str(leak).endswith("_0, of the running loop's pool, which is at work")
        let_go.set()

    play.bare(main)


@pytest.mark.real
@pytest.mark.parametrize("name", ["asyncio_0", "uvloop_bridge"])
def test_a_thread_is_not_excused_for_its_name(play: Play, name: str, let_go: threading.Event) -> None:
    threads: list[threading.Thread] = []

    def start(ctx: Context, message: Any) -> None:
        threads.append(threading.Thread(target=let_go.wait, args=(PATIENCE,), name=name))
        threads[-1].start()

    async def body() -> None:
        async with ActorSystem() as system:
            system.spawn(start).tell("go")
            await system.settle()

    async def main() -> None:
        (leak,) = await found_inside(body)
        assert (leak.kind, leak.name) == ("thread", name)

    play.bare(main)
    let_go.set()
    for thread in threads:
        thread.join()


@pytest.mark.real
def test_an_idle_thread_of_another_loops_pool_is_a_leak(play: Play) -> None:
    async def main() -> None:
        other = play.loop_factory()
        pool = ThreadPoolExecutor(1, thread_name_prefix="asyncio")
        other.set_default_executor(pool)

        async def body() -> None:
            pool.submit(int).result(PATIENCE)

        assert [leak.name for leak in await found_inside(body)] == ["asyncio_0"]
        pool.shutdown()
        other.close()

    play.bare(main)


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
