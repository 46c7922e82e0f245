"""The same seed is the same run: whatever lay where in memory before, and whoever else simulates or interrupts (B1)."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from greenroom import Actor, ActorSystem
from greenroom.errors import SimulationEndless, SimulationRefused, WrongThread
from greenroom.testing import Simulation, explore

MANY = 12


class Log(Actor[Any, Any]):
    """Remembers what it is told, and by whom."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def receive(self, message: Any) -> list[Any] | None:
        if message == "show":
            return list(self.seen)
        self.seen.append((None if self.ctx.sender is None else self.ctx.sender.name, message))
        return None


# -- what asyncio keeps in sets


async def as_completed(log: Any) -> None:
    async def work(number: int) -> None:
        log.tell(number)
        await asyncio.sleep(1)

    for done in asyncio.as_completed([work(number) for number in range(MANY)]):
        await done


async def group_that_fails(log: Any) -> None:
    async def work(number: int) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            log.tell(number)

    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(MANY):
                group.create_task(work(number))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        await all_of_them()


async def wait(log: Any) -> None:
    async def work(number: int) -> int:
        await asyncio.sleep(1)
        return number

    done, _ = await asyncio.wait([asyncio.create_task(work(number)) for number in range(MANY)])
    for task in done:
        log.tell(task.result())


async def all_tasks(log: Any) -> None:
    async def work(number: int) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            log.tell(number)

    tasks = [asyncio.create_task(work(number)) for number in range(MANY)]
    await asyncio.sleep(1)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def set_of_futures(log: Any) -> None:
    futures = {asyncio.get_running_loop().create_future(): number for number in range(MANY)}
    for future in set(futures):
        log.tell(futures[future])


async def names_of_tasks(log: Any) -> None:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        log.tell(task.get_name())

    await asyncio.gather(*(work() for _ in range(MANY)))


@pytest.mark.parametrize("kept", [as_completed, group_that_fails, wait, all_tasks, set_of_futures, names_of_tasks])
def test_sets_of_tasks_have_an_order_that_does_not_depend_on_where_they_lie(kept: Callable[[Any], Any]) -> None:
    async def program(system: ActorSystem) -> Any:
        log = system.spawn(Log, name="log")
        await kept(log)
        return await log.ask("show")

    junk: list[Any] = []
    found = set()
    for size in range(8):
        simulation = Simulation(seed=1)
        seen = simulation.run(program)
        assert len(seen) == MANY
        found.add((simulation.trace.digest, tuple(seen)))
        junk.extend(bytearray(100 * size) for _ in range(50))  # so that the next run's objects lie elsewhere
    assert len(found) == 1


def test_generators_that_were_left_are_closed_in_the_order_in_which_they_were_begun() -> None:
    closed: list[int] = []

    async def numbers(number: int) -> AsyncIterator[int]:
        try:
            yield number
        finally:
            await asyncio.sleep(0)
            closed.append(number)

    begun: list[Any] = []

    async def program(system: ActorSystem) -> None:
        for number in range(MANY):
            generator = numbers(number)
            await anext(generator)
            begun.append(generator)

    for _ in range(3):
        closed.clear()
        begun.clear()
        Simulation().run(program)
        assert closed == list(range(MANY))


# -- what the digest tells apart


def digest_of(program: Any) -> str:
    simulation = Simulation(seed=1, schedule="fifo")
    simulation.run(program)
    return simulation.trace.digest


def telling(message: Any, senders: str = "ab") -> Any:
    async def program(system: ActorSystem) -> None:
        log = system.spawn(Log, name="log")
        refs = {name: system.spawn(Log, name=name) for name in "ab"}
        for name in senders:
            log.tell(message, sender=refs[name])
        await system.settle()

    return program


def test_the_digest_tells_who_sent() -> None:
    assert digest_of(telling(1, "ab")) != digest_of(telling(1, "ba"))


@pytest.mark.parametrize(("one", "other"), [(-1, -2), (1, 2**61), (0, 2**61 - 1), (5, -5), ((-1,), (-2,)), (0.5, 0.25)])
def test_the_digest_tells_any_two_numbers_apart(one: Any, other: Any) -> None:
    assert digest_of(telling(one)) != digest_of(telling(other))


# -- what must not go unseen


def test_what_is_refused_to_an_actor_fails_the_run_though_the_actor_is_supervised() -> None:
    class Store(Actor[int, None]):
        async def receive(self, message: int) -> None:
            await asyncio.to_thread(print, message)

    async def program(system: ActorSystem) -> None:
        system.spawn(Store).tell(1)
        await system.settle()

    with pytest.raises(SimulationRefused, match="run_in_executor"):
        Simulation().run(program)
    report = explore(program, runs=3, workers=0, output=None)
    assert report.failure is not None
    assert isinstance(report.failure.error, SimulationRefused)


@pytest.mark.parametrize("seconds", [0.0, 0.1])
def test_waiting_again_and_again_for_what_never_comes_has_an_end(seconds: float) -> None:
    async def program(system: ActorSystem) -> None:
        while True:  # noqa: ASYNC110 - a program may
            await asyncio.sleep(seconds)

    with pytest.raises(SimulationEndless):
        Simulation(max_steps=1000).run(program)


# -- other threads


def test_simulations_on_two_threads_take_turns() -> None:
    async def program(system: ActorSystem) -> tuple[float, ...]:
        log = system.spawn(Log)
        times = []
        for _ in range(50):
            await asyncio.sleep(1)
            log.tell(1)
            times.append(time.time())
            assert not gc.isenabled()
        return tuple(times)

    original = time.time
    results: list[Any] = []

    def simulate(seed: int) -> None:
        for _ in range(5):
            simulation = Simulation(seed)
            results.append((seed, simulation.run(program), simulation.trace.digest))

    threads = [threading.Thread(target=simulate, args=(seed,)) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(results) == 15
    assert len(set(results)) == 3
    assert time.time is original
    assert gc.isenabled()


def test_a_session_belongs_to_the_thread_that_opened_it() -> None:
    raised: list[BaseException] = []
    with Simulation().open() as session:
        log = session.system.spawn(Log)

        def use() -> None:
            try:
                session.run(lambda: log.ask("show"))
            except WrongThread as exc:
                raised.append(exc)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join(120)
        assert len(raised) == 1
        assert session.run(lambda: log.ask("show")) == []


# -- interrupts


def run_alone(script: str) -> str:
    """What it says on stderr."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr


INTERRUPTS = 40
IN_ASYNCIO = """
import gc, os, sys
from greenroom import Actor
from greenroom.testing import Simulation

class Echo(Actor):
    def receive(self, message):
        return message

async def program(system):
    return await system.spawn(Echo).ask(1)

def interrupt(at):
    '''Ctrl-C at the n-th line of what asyncio does to make a task or call back; then go on as if nothing had been.'''
    left = at
    def trace(frame, event, arg):
        nonlocal left
        if frame.f_code.co_name in ("call_soon", "_call_soon", "add", "create_task", "_run_once"):
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace
    sys.settrace(trace)
    try:
        Simulation().run(program)
    except BaseException:
        pass
    sys.settrace(None)
    gc.collect()
    for _ in range(3):
        assert Simulation().run(program) == 1
        gc.collect()

Simulation().run(program)
for at in range(1, INTERRUPTS):
    child = os.fork()
    if child == 0:
        interrupt(at)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, at
""".replace("INTERRUPTS", str(INTERRUPTS))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each in a process of its own")
def test_an_interrupt_in_the_middle_of_asyncios_work_breaks_nothing() -> None:
    run_alone(IN_ASYNCIO)


AT_THE_DOOR = """
import gc, logging, sys, threading, time
from greenroom._core.world import worlds
from greenroom.testing import Simulation
from greenroom.testing import patches

async def program(system):
    await system.settle()

left = 0
def trace(frame, event, arg):
    # Ctrl-C at the n-th line of what replaces time and puts it back.
    global left
    if frame.f_code.co_filename == patches.__file__:
        left -= 1
        if left == 0:
            sys.settrace(None)
            raise KeyboardInterrupt
    return trace

functions = {name: getattr(time, name) for name in ("time", "monotonic", "sleep", "perf_counter")}
logging.disable()
interrupts = 0
for moment in range(1, 2000):
    left = moment
    sys.settrace(trace)
    try:
        Simulation().run(program)
    except KeyboardInterrupt:
        interrupts += 1
    sys.settrace(None)
    assert {name: getattr(time, name) for name in functions} == functions, moment
    assert threading.get_ident() not in worlds, moment
    assert gc.isenabled(), moment
    if left > 0:
        break
assert interrupts > 200, interrupts
"""


def test_an_interrupt_while_time_is_replaced_or_put_back_leaves_it_as_it_was() -> None:
    run_alone(AT_THE_DOOR)


AT_EXIT = """
import sys
from greenroom.testing import Simulation
from greenroom.testing import patches

async def program(system):
    await system.settle()

class Late:
    def __del__(self, audit=sys.audit):
        audit("late")

Simulation().run(program)
patches.late = Late()  # gone when half of the module's names are
"""


def test_the_interpreter_ends_without_a_complaint_after_a_simulation() -> None:
    assert run_alone(AT_EXIT) == ""
