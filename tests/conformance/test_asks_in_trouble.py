"""Asks whose way is blocked, shared, crossed or raced: each ends, and in time."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    AskTimeout,
    Behaviors,
    Context,
    Drain,
    MonotonicClock,
)
from greenroom.errors import GreenroomError, NotStarted, WaitsForItself
from greenroom.testing import assert_ledger_balanced
from tests.gates import Gate, standstill

if TYPE_CHECKING:
    from tests.conftest import Play

PATIENCE = 120.0


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


@pytest.mark.config(clock=MonotonicClock())
async def test_a_timeout_ends_the_ask_though_the_actor_is_suspended_and_the_loop_asleep(
    system: ActorSystem,
) -> None:  # case 23
    gate = Gate()

    async def busy(ctx: Context, message: object) -> None:
        await gate

    ref = system.spawn(busy)
    ref.tell("in hand")
    while not system._loop.runq.asleep:  # noqa: ASYNC110 - nothing tells when it has fallen asleep
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(AskTimeout):
            await ref.ask("queued", timeout=0.01)
    gate.set_result(None)


@pytest.mark.parametrize("fate", ["unhandled", "dead_letter", "drop"])
async def test_an_ask_ends_after_all_have_been_told_what_became_of_its_message(
    system: ActorSystem, fate: str
) -> None:  # cases 25, 26
    asks: list[Any] = []
    heard: list[bool] = []

    class Observer:
        def dead_letter(self, recipient: Any, message: Any, sender: Any, why: str) -> None:
            heard.append(asks[0].done())

        def message_dropped(self, ref: Any, message: Any, lane: Any) -> None:
            heard.append(asks[0].done())

    system.observers.add(Observer())
    ref = system.spawn(
        lambda ctx, message: Behaviors.unhandled, drain=Drain.DROP if fate == "drop" else Drain.DEAD_LETTER
    )
    await ref.started()
    with standstill(system):
        asks.append(ref.ask("message", timeout=None))
        if fate != "unhandled":
            ref.stop()
    with pytest.raises(GreenroomError):
        await asks[0]
    assert heard == [False]


@pytest.mark.real
@pytest.mark.parametrize("way", ["forward", "redirect"])
@pytest.mark.parametrize("asker", ["coroutine", "actor"])
def test_an_ask_that_was_handed_to_a_system_on_another_thread_is_answered(play: Play, way: str, asker: str) -> None:
    with ActorSystem("other") as other:
        echo = other.spawn(Echo)

        async def program(system: ActorSystem) -> None:
            def forward(ctx: Context, message: object) -> None:
                ctx.forward(echo)

            async def ask(ctx: Context, message: object) -> object:
                return await ref.ask("hi", timeout=None)

            if way == "forward":
                ref = system.spawn(forward)
                first = ref if asker == "coroutine" else system.spawn(ask)
                asked = first.ask("hi", timeout=None)
            else:
                ref = system.spawn(Echo, drain=Drain.REDIRECT(echo))
                await ref.started()
                first = ref if asker == "coroutine" else system.spawn(ask)
                asked = first.ask("hi", timeout=None)
                if asker == "coroutine":
                    ref.stop()
                else:
                    first.tell("nothing")
            async with asyncio.timeout(PATIENCE):
                assert await asked == "hi"

        play(program)
        assert_ledger_balanced(other)


@pytest.mark.real
def test_a_failure_on_another_thread_comes_back_too(play: Play) -> None:
    class Broken(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            raise ValueError(message)

    with ActorSystem("other") as other:
        broken = other.spawn(Broken)

        async def program(system: ActorSystem) -> None:
            ref = system.spawn(lambda ctx, message: ctx.forward(broken))
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(ValueError, match="bad"):
                    await ref.ask("bad", timeout=None)

        play(program)


async def test_when_one_who_awaits_an_ask_is_cancelled_so_are_the_others(system: ActorSystem) -> None:  # case 28
    gate = Gate()

    async def slow(ctx: Context, message: object) -> None:
        await gate

    async def asks(ctx: Context, message: object) -> str:
        asked = target.ask("x", timeout=None)

        async def awaits() -> object:
            return await asked

        task = asyncio.create_task(awaits())
        aio = asyncio.get_running_loop()
        aio.call_soon(lambda: aio.call_soon(task.cancel))
        try:
            await asked
        except asyncio.CancelledError:
            return "cancelled"
        return "answered"

    target = system.spawn(slow)
    async with asyncio.timeout(PATIENCE):
        assert await system.spawn(asks).ask("go", timeout=None) == "cancelled"
    gate.set_result(None)


def test_answers_that_race_with_the_asker_s_patience_are_given_or_late() -> None:  # case 23
    def spin(ctx: Context, seconds: float) -> str:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return "done"

    counts = {"answered": 0, "too late": 0}
    lock = threading.Lock()

    def asks() -> None:
        for number in range(150):
            try:
                answer = ref.ask_sync(0.0002, timeout=0.0002 + number * 1e-5)
            except AskTimeout:
                outcome = "too late"
            else:
                assert answer == "done"
                outcome = "answered"
            with lock:
                counts[outcome] += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ActorSystem() as system:
            ref = system.spawn(spin)
            threads = [threading.Thread(target=asks) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120.0)
            assert ref.ask_sync(0.0, timeout=PATIENCE) == "done"
    finally:
        sys.setswitchinterval(interval)
    assert sum(counts.values()) == 450
    ledger = assert_ledger_balanced(system)
    assert ledger.handled == ledger.sent == 451
    assert ledger.late_replies <= counts["too late"]


def test_after_the_end_of_its_system_an_ask_says_so_on_every_thread() -> None:  # J9
    with ActorSystem() as system:
        ref = system.spawn(Echo)
    heard: list[BaseException] = []

    def ask() -> None:
        try:
            ref.ask_sync(1, timeout=1.0)
        except BaseException as exc:
            heard.append(exc)

    for _ in range(3):  # one of them is likely to get the number of the system's own thread
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(PATIENCE)
    assert [type(exc) for exc in heard] == [ActorTerminated] * 3
    system.close()


def test_asking_a_system_that_does_not_run_yet_says_so() -> None:  # J9
    system = ActorSystem()
    ref = system.spawn(Echo)
    with pytest.raises(NotStarted):
        ref.ask_sync(1, timeout=1.0)


@pytest.mark.parametrize("what", ["inspect", "terminated"])
async def test_an_actor_that_waits_for_itself_is_told_so(system: ActorSystem, what: str) -> None:  # J9
    async def waits(ctx: Context, message: object) -> None:
        await getattr(ctx.self, what)()

    with pytest.raises(WaitsForItself, match="its own"):
        await system.spawn(waits).ask("go")
