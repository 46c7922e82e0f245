"""`detect_leaks`: a test fails when something that it started outlives it (M19)."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, Context
from greenroom.errors import BadArgument, InvalidDelay
from greenroom.testing import Leak, LeaksFound, TestProbe, detect_leaks
from greenroom.testing.checks import resources

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
        self.let_go = threading.Event()
        self.thread = threading.Thread(target=self.let_go.wait, args=(20.0,), name=name, daemon=True)
        self.thread.start()

    def end(self) -> None:
        self.let_go.set()
        self.thread.join()


# -- what is no leak


def test_a_test_that_cleans_up_passes(play: Play) -> None:
    async def main() -> None:
        async with detect_leaks():
            async with ActorSystem() as system:
                probe = TestProbe(system)
                system.spawn(note).tell("x")
                task = asyncio.create_task(probe.receive())
                probe.ref.tell("y")
                assert await task == "y"
            await asyncio.to_thread(Held("short").end)  # on a thread of asyncio's own pool, which stays

    play.bare(main)


def test_a_test_without_asyncio_that_cleans_up_passes() -> None:
    with detect_leaks():
        with ActorSystem() as system:
            system.spawn(note).tell("x")
        Held("short").end()
        asyncio.run(asyncio.sleep(0))


def test_what_was_there_before_is_no_leak(play: Play) -> None:
    async def main() -> None:
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

    play.bare(main)


def test_a_system_that_has_stopped_or_was_never_used_is_no_leak(play: Play) -> None:
    kept: list[ActorSystem] = []

    async def main() -> None:
        async with detect_leaks(patience=0.0):
            kept.append(ActorSystem())
            async with ActorSystem() as system:
                kept.append(system)
                system.spawn(note)

    play.bare(main)


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


def test_a_system_that_runs_on_is_a_leak_and_so_are_its_actors(play: Play) -> None:
    async def main() -> None:
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

    play.bare(main)


def test_an_actor_that_is_left_in_a_system_of_before_is_a_leak(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        first = system.spawn(note, name="first")

        async def body() -> None:
            first.stop()
            await first.terminated()
            system.spawn(note, name="second")  # it has the first one's slot, but it is another
            system.spawn(note).stop()
            await system.settle()

        assert kinds_and_names(await leaks_of(body)) == [("actor", "/second")]

    play(program)


def test_an_actor_that_is_about_to_end_has_time_to(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        async with detect_leaks():
            system.spawn(note).stop()

    play(program)


def test_the_actors_of_a_system_that_was_never_started_are_a_leak(play: Play) -> None:
    async def main() -> None:
        system = ActorSystem("idle")

        async def body() -> None:
            system.spawn(note, name="worker")

        assert "actor /worker of the system idle, which is not started" in str(await leaks_of(body))
        await system.shutdown()

    play.bare(main)


def test_a_system_on_a_thread_of_its_own_is_found_even_if_it_is_stuck() -> None:
    entered, let_go = threading.Event(), threading.Event()

    def stuck(ctx: Context, message: Any) -> None:
        entered.set()
        let_go.wait(120.0)

    system = ActorSystem("elsewhere")
    detector = detect_leaks(patience=0.0, fds=False)
    detector.__enter__()
    system.__enter__()
    system.spawn(stuck, name="stuck").tell("x")
    entered.wait(120.0)
    with pytest.raises(LeaksFound) as found:
        detector.__exit__(None, None, None)
    assert kinds_and_names(found.value) == [("system", "elsewhere"), ("actor", "/stuck"), ("thread", "elsewhere")]
    let_go.set()
    system.close()


async def tick() -> None:
    await asyncio.Event().wait()


def test_a_task_that_is_left_is_a_leak(play: Play) -> None:
    async def main() -> None:
        tasks = []

        async def body() -> None:
            tasks.append(asyncio.create_task(tick(), name="forgotten"))

        found = await leaks_of(body)
        assert kinds_and_names(found) == [("task", "forgotten")]
        assert re.search(r"task forgotten, in tick\(\) at .*test_leaks\.py:\d+", str(found))
        assert "async with detect_leaks" not in str(found)
        tasks[0].cancel()

    play.bare(main)


def test_a_task_that_is_about_to_end_has_time_to_in_an_async_with_only(play: Play) -> None:
    async def main() -> None:
        async with detect_leaks():
            asyncio.create_task(tick()).cancel()
        with (
            pytest.raises(LeaksFound, match="have a chance to end in `async with detect_leaks"),
            detect_leaks(patience=0.0),
        ):
            asyncio.create_task(tick()).cancel()

    play.bare(main)


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


def test_a_thread_that_is_about_to_end_has_time_to(play: Play) -> None:
    with detect_leaks():
        Held("ending").let_go.set()

    async def main() -> None:
        async with detect_leaks():
            Held("ending").let_go.set()

    play.bare(main)


def test_the_threads_of_a_pool_of_ones_own_are_a_leak(play: Play) -> None:
    async def main() -> None:
        pool = ThreadPoolExecutor(1, thread_name_prefix="mine")

        async def body() -> None:
            await asyncio.get_running_loop().run_in_executor(pool, int)

        assert kinds_and_names(await leaks_of(body)) == [("thread", "mine_0")]
        pool.shutdown()

    play.bare(main)


@needs_proc
def test_what_is_left_open_is_a_leak(play: Play, tmp_path: Path) -> None:
    async def main() -> None:
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

    play.bare(main)


def test_where_the_machine_does_not_tell_open_files_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(resources, "_OPEN_FILES", tmp_path / "nowhere")
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
def test_systems_and_actors_are_named_by_name_and_path(play: Play, ignore: list[str], left: list[str]) -> None:
    async def main() -> None:
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

    play.bare(main)


@pytest.mark.parametrize("kind", ["actors", "tasks", "threads", pytest.param("fds", marks=needs_proc)])
def test_each_kind_can_be_left_out(play: Play, kind: str, tmp_path: Path) -> None:
    async def program(system: ActorSystem) -> None:
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

    play(program)


def test_what_the_test_itself_raises_passes(play: Play) -> None:
    async def main() -> None:
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

    play.bare(main)


def test_of_many_leaks_not_all_are_told(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        async def body() -> None:
            for _ in range(25):
                system.spawn(note)

        found = await leaks_of(body)
        assert len(found.leaks) == 25
        assert str(found).count("actor /note$") == 20
        assert "and 5 more of the kind" in str(found)

    play(program)


def test_a_leak_can_be_read() -> None:
    assert str(Leak("thread", "pool-1", ", a daemon")) == "thread pool-1, a daemon"
    assert isinstance(LeaksFound((Leak("thread", "pool-1"),)), AssertionError)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadArgument, match="not 5"):
        detect_leaks(ignore=[5])  # type: ignore[list-item]
    with pytest.raises(InvalidDelay):
        detect_leaks(patience=-1.0)
