"""Actors with a thread, and an asyncio loop, of their own."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, AskDeadlock, Context, ExitKind, ManualClock, Pinned, Supervision, SystemConfig
from tests.conftest import Play
from tests.gates import Event
from tests.system.dispatchers.test_parallel import PATIENCE, do


class Native(Actor[str, Any]):
    """Tells where it is."""

    def __init__(self) -> None:
        self.born = threading.get_ident()
        self.loop = asyncio.get_running_loop()

    async def receive(self, message: str) -> Any:
        if message == "crash":
            raise ValueError("on purpose")
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is self.loop
        assert threading.get_ident() == self.born
        return self.born


async def test_everything_of_one_actor_runs_on_one_thread_with_one_asyncio_loop(system: ActorSystem) -> None:
    refs = [system.spawn(Native, dispatcher="pinned") for _ in range(3)]
    threads = [await ref.ask("where?") for ref in refs for _ in range(3)]
    assert threads[0::3] == threads[1::3] == threads[2::3]
    assert len({*threads, threading.get_ident()}) == 4


async def test_a_restart_keeps_the_thread_and_the_end_lets_it_go(system: ActorSystem) -> None:
    ref = system.spawn(Native, dispatcher="pinned", supervision=Supervision(backoff=None))
    before = await ref.ask("where?")
    ref.tell("crash")
    assert await ref.ask("where?") == before
    assert system.dispatchers.threads == {"pinned": 1}
    ref.stop()
    await ref.terminated()
    assert system.dispatchers.threads == {}
    while before in {thread.ident for thread in threading.enumerate()}:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0)


async def test_tasks_of_its_own_run_on_between_its_messages(system: ActorSystem) -> None:
    class Ticking(Actor[str, int]):
        def pre_start(self) -> None:
            self.ticks = 0
            self.task = asyncio.get_running_loop().create_task(self.tick())
            self.enough = asyncio.Event()

        async def tick(self) -> None:
            while True:
                await asyncio.sleep(0)
                self.ticks += 1
                if self.ticks == 10:
                    self.enough.set()

        async def receive(self, message: str) -> int:
            await self.enough.wait()
            return self.ticks

    assert await system.spawn(Ticking, dispatcher="pinned").ask("how many?") >= 10


async def test_a_pipe_runs_where_the_actor_does_and_ends_with_it(system: ActorSystem) -> None:
    cancelled = threading.Event()
    heard: list[Any] = []

    async def work() -> int:
        return threading.get_ident()

    async def hang() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    class Piping(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            if message == "pipe":
                self.ctx.pipe_to_self(work())
                self.ctx.pipe_to_self(hang())
                return threading.get_ident()
            heard.append(message)
            return None

    ref = system.spawn(Piping, dispatcher="pinned")
    where = await ref.ask("pipe")
    while not heard:  # noqa: ASYNC110 - what is piped is waited for by nobody
        await asyncio.sleep(0)
    assert heard == [where]
    ref.stop()
    assert await asyncio.to_thread(cancelled.wait, PATIENCE)


@pytest.mark.config(stop_timeout=5.0)
async def test_a_coroutine_that_is_in_the_way_of_a_stop_is_cancelled(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57
    seen: list[str] = []
    entered = threading.Event()

    async def hang(ctx: Context, message: Any) -> None:
        entered.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append(threading.current_thread().name)
            raise

    ref = system.spawn(hang, dispatcher="pinned")
    ref.tell("hang")
    await asyncio.to_thread(entered.wait, PATIENCE)
    ref.stop()
    await clock.advance(5.0)
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert seen == ["test pinned 1"]
    assert system.ledger(ref).failed == 1


async def test_a_circle_of_waiting_coroutines_is_a_deadlock(system: ActorSystem) -> None:  # case 25
    refs: list[Any] = []

    async def ask_the_other(ctx: Context, message: int) -> Any:
        return await refs[message % 2].ask(message - 1, timeout=PATIENCE) if message else "the end"

    refs += [system.spawn(ask_the_other, dispatcher="pinned", name=name) for name in ("a", "b")]
    with pytest.raises(AskDeadlock, match="/b"):
        await refs[0].ask(3)


@pytest.mark.parametrize("answer", ["reply", "fail_reply"])
async def test_an_answer_on_its_way_ends_the_waiting_for_it(system: ActorSystem, answer: str) -> None:  # case 25
    """Its system learns that the asker waits, that it has been answered, and that the other asks back: all at once."""
    asked, held, waits, asks_back = (threading.Event() for _ in range(4))

    def hold_up_the_system(ctx: Context, message: Any) -> None:
        held.set()
        assert asks_back.wait(PATIENCE)

    holder = system.spawn(hold_up_the_system)

    async def ask(ctx: Context, ref: Any) -> Any:
        if ref is None:
            return "the end"
        question = ref.ask("?", timeout=None)
        assert asked.wait(PATIENCE)
        holder.tell("now")
        assert held.wait(PATIENCE)
        asyncio.get_running_loop().call_soon(waits.set)
        try:
            return await question
        except ValueError:
            return "no"

    async def answer_and_ask_back(ctx: Context, message: Any) -> None:
        asked.set()
        assert waits.wait(PATIENCE)
        if answer == "reply":
            ctx.reply("yes")
        else:
            ctx.fail_reply(ValueError("no"))
        asyncio.get_running_loop().call_soon(asks_back.set)
        heard.append(await asker.ask(None, timeout=None))

    heard: list[Any] = []
    asker = system.spawn(ask, dispatcher="pinned")
    other = system.spawn(answer_and_ask_back, dispatcher="pinned")
    assert await asker.ask(other, timeout=None) == ("yes" if answer == "reply" else "no")
    await system.settle()
    assert heard == ["the end"]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system cannot keep a thread on a processor")
def test_a_thread_can_be_kept_on_one_processor(play: Play) -> None:  # K8
    core = min(os.sched_getaffinity(0))

    async def program(system: ActorSystem) -> None:
        assert await system.spawn(do, dispatcher="kept").ask(lambda ctx: os.sched_getaffinity(0)) == {core}
        assert await system.spawn(do, dispatcher="pinned").ask(lambda ctx: os.sched_getaffinity(0)) != set()

    play(program, dispatchers={"kept": Pinned(core)})
    assert core in os.sched_getaffinity(0)


@pytest.mark.config(dispatchers={"kept": Pinned(core=4000)})
async def test_a_processor_that_is_not_there_is_told_of_and_the_actor_runs(
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert await system.spawn(do, dispatcher="kept").ask(lambda ctx: "runs") == "runs"
        await system.shutdown()
    assert "cannot be kept on processor 4000" in caplog.text


async def test_threads_of_actors_that_come_and_go_do_not_add_up(system: ActorSystem) -> None:
    before = threading.active_count()
    for _ in range(30):
        ref = system.spawn(do, dispatcher="pinned")
        await ref.ask(lambda ctx: None)
        ref.stop()
        await ref.terminated()
    assert system.dispatchers.threads == {}
    await system.shutdown()
    assert threading.active_count() <= before


async def test_a_clock_that_is_moved_by_hand_need_not_wait_for_who_only_waits(
    system: ActorSystem, clock: ManualClock
) -> None:
    log: list[str] = []

    async def wait(ctx: Context, gate: Event) -> None:
        await asyncio.sleep(0)
        log.append("waits")
        await gate.wait()
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
        log.append("goes on")

    ref = system.spawn(wait, dispatcher="pinned")
    for _ in range(20):
        gate = Event()
        ref.tell(gate)
        await clock.advance(1.0)
        assert log == ["waits"]
        gate.set()
        await clock.advance(1.0)
        assert log == ["waits", "goes on"]
        log.clear()


def test_a_sync_program_has_them_too() -> None:
    with ActorSystem("sync", config=SystemConfig()) as system:
        names = [
            system.spawn(do, dispatcher=name).ask_sync(lambda ctx: threading.current_thread().name)
            for name in ("concurrent", "parallel", "pinned")
        ]
    assert names == ["sync", "sync parallel 1", "sync pinned 1"]


def test_a_pinned_actor_that_never_ran_leaves_no_thread() -> None:
    system = ActorSystem("test")
    system.spawn(do, dispatcher="pinned")
    assert system.dispatchers.threads == {}
