"""A system of several loops in a simulation: the seed decides how their ticks interleave (B1)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Context,
    Directive,
    MailboxConfig,
    ManualClock,
    Supervision,
    SystemConfig,
)
from greenroom.errors import AskDeadlock, MailboxFull, NameTaken, SimulationRefused, SimulationStuck
from greenroom.system.dispatchers.settings import Loop
from greenroom.testing import Simulation, assert_ledger_balanced

LOOPS = 3
THREE = SystemConfig(loops=LOOPS)
ONCE = Supervision(Directive.STOP)
SEEDS = range(20)


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Have nothing logged: most of what fails here is meant to."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Doer(Actor[Any, Any]):
    """Does what it is told: calls a function with its context. Writes down all else."""

    def __init__(self, log: list[Any] | None = None) -> None:
        self.log: list[Any] = [] if log is None else log

    async def receive(self, message: Any) -> Any:
        if callable(message):
            result = message(self.ctx)
            return await result if asyncio.iscoroutine(result) else result
        self.log.append(message)
        return message

    def on_terminated(self, ref: ActorRef, cause: BaseException | None) -> None:
        self.log.append(("terminated", ref.name))


def spread(system: ActorSystem, number: int = LOOPS, **options: Any) -> list[ActorRef]:
    """Actors of which each lives on another loop."""
    return [system.spawn(Doer, dispatcher="spread", **options) for _ in range(number)]


def schedule_of(seed: int) -> str:
    """Both kinds that depend on the seed, and "fifo" once."""
    return "fifo" if seed == 0 else ("random", "pct")[seed % 2]


def at_many_seeds(program: Callable[[ActorSystem], Any], config: SystemConfig = THREE, **settings: Any) -> list[str]:
    """Run `program` on all schedules; the digests of its traces, which are the same when it is run again."""
    digests = []
    for seed in SEEDS:
        schedule = schedule_of(seed)
        runs = [Simulation(seed, schedule=schedule, config=config, **settings) for _ in range(2 if seed < 5 else 1)]
        for simulation in runs:
            simulation.run(program)
            assert simulation.system is not None
            ledger = assert_ledger_balanced(simulation.system)
            assert ledger.queued == ledger.in_hand == 0
        assert len({(run.trace.digest, str(run.trace)) for run in runs}) == 1
        digests.append(runs[0].trace.digest)
    return digests


# Loops without threads


def test_each_loop_has_an_event_loop_of_its_own_and_no_thread_is_started() -> None:
    before = threading.active_count()

    async def program(system: ActorSystem) -> None:
        refs = spread(system, 2 * LOOPS)
        assert len({ref._cell.loop for ref in refs}) == LOOPS
        here = asyncio.get_running_loop()
        found = [await ref.ask(lambda ctx: asyncio.get_running_loop()) for ref in refs]
        assert len(set(found)) == LOOPS
        assert found[:LOOPS] == found[LOOPS:]
        assert found[0] is here  # actors of the home loop live where the program does
        assert {await ref.ask(lambda ctx: threading.current_thread()) for ref in refs} == {threading.current_thread()}
        assert threading.active_count() == before

    at_many_seeds(program)
    assert threading.active_count() == before


def test_actors_without_a_dispatcher_live_at_home_and_children_with_their_parents() -> None:
    async def program(system: ActorSystem) -> None:
        assert system.spawn(Doer)._cell.loop is system._loop
        for parent in spread(system):
            child = await parent.ask(lambda ctx: ctx.spawn(Doer))
            assert child._cell.loop is parent._cell.loop
            assert await child.ask("hello") == "hello"

    at_many_seeds(program)


def test_a_dispatcher_can_have_a_loop_of_its_own() -> None:
    async def program(system: ActorSystem) -> None:
        mine, other, home = (
            system.spawn(Doer, dispatcher="mine"),
            system.spawn(Doer, dispatcher="other"),
            system.spawn(Doer),
        )
        assert len({ref._cell.loop for ref in (mine, other, home)}) == 3
        # One that a handler is the first to use, on whichever loop.
        late = await mine.ask(lambda ctx: ctx.system.spawn(Doer, dispatcher="late"))
        assert late._cell.loop not in {ref._cell.loop for ref in (mine, other, home)}
        assert [await ref.ask(number) for number, ref in enumerate((mine, other, home, late))] == [0, 1, 2, 3]

    at_many_seeds(program, SystemConfig(dispatchers={"mine": Loop(core=0), "other": Loop(), "late": Loop()}))


def test_as_many_loops_as_cores_are_four_on_every_machine() -> None:
    async def program(system: ActorSystem) -> int:
        return len({ref._cell.loop for ref in spread(system, 16)})

    assert Simulation(config=SystemConfig(loops="cores")).run(program) == 4


# What holds between loops


def test_what_belongs_to_the_event_loop_of_another_loop_is_refused_by_asyncio_as_on_real_threads() -> None:
    async def program(system: ActorSystem) -> None:
        first, second, _ = spread(system)
        event = await first.ask(lambda ctx: asyncio.Event())
        first.tell(lambda ctx: event.wait())
        await asyncio.sleep(1)
        with pytest.raises(RuntimeError, match="different event loop"):
            await second.ask(lambda ctx: event.wait())

    at_many_seeds(program)


def test_what_one_tells_another_comes_in_order() -> None:
    orders = set()

    async def program(system: ActorSystem) -> None:
        log: list[Any] = []
        target = system.spawn(Doer, log, dispatcher="spread")
        senders = spread(system, 2 * LOOPS)

        def send(ctx: Context, name: int) -> None:
            for number in range(5):
                target.tell((name, number))

        for name, sender in enumerate(senders):
            sender.tell(lambda ctx, name=name: send(ctx, name))
        await system.settle()
        for name in range(len(senders)):
            assert [number for sender, number in log if sender == name] == list(range(5))
        assert len(log) == 5 * len(senders)
        orders.add(tuple(sender for sender, _ in log))

    at_many_seeds(program)
    assert len(orders) > len(SEEDS) // 3  # the seeds differ in whose comes first


def test_asks_go_from_loop_to_loop_and_circles_of_them_are_found() -> None:
    async def ask_on(ctx: Context, *path: ActorRef) -> Any:
        return await path[0].ask(lambda ctx: ask_on(ctx, *path[1:]), timeout=None) if path else ctx.name

    async def program(system: ActorSystem) -> None:
        first, second, third = spread(system)
        assert await first.ask(lambda ctx: ask_on(ctx, second, third)) == third.name
        with pytest.raises(AskDeadlock):
            await first.ask(lambda ctx: ask_on(ctx, second, third, first), timeout=None)

    at_many_seeds(program)


def test_whoever_watches_is_told_of_an_end_on_another_loop() -> None:
    async def program(system: ActorSystem) -> None:
        log: list[Any] = []
        watcher, stopped, killed, failed = spread(system, 4, log=log)
        for ref in (stopped, killed, failed):
            await watcher.ask(lambda ctx, ref=ref: ctx.watch(ref))
        stopped.stop()
        killed.kill()
        failed.fail(ValueError("on purpose"))
        for ref in (stopped, killed, failed):
            await ref.terminated()
        await system.settle()
        assert sorted(log) == sorted(("terminated", ref.name) for ref in (stopped, killed, failed))

    at_many_seeds(program, SystemConfig(loops=LOOPS, supervision=ONCE))


def test_actors_that_are_linked_end_together() -> None:
    async def program(system: ActorSystem) -> None:
        refs = spread(system)
        await refs[1].ask(lambda ctx: ctx.link(refs[0]))
        await refs[2].ask(lambda ctx: ctx.link(refs[1]))
        refs[0].kill()
        for ref in refs:
            assert (await ref.terminated()).abnormal

    at_many_seeds(program, SystemConfig(loops=LOOPS, supervision=ONCE))


def test_an_actor_is_restarted_on_the_loop_where_it_lives() -> None:
    def fail(ctx: Context) -> None:
        raise ValueError("on purpose")

    async def program(system: ActorSystem) -> None:
        refs = spread(system)
        for ref in refs:
            ref.tell(fail)
            assert await ref.ask(lambda ctx: asyncio.get_running_loop()) is ref._cell.loop.host.poller.home()
        assert system.snapshot().ledger.failed == LOOPS

    at_many_seeds(program)


def test_a_full_mailbox_on_another_loop_refuses_at_once_and_a_send_waits_for_room() -> None:
    async def program(system: ActorSystem) -> None:
        log: list[Any] = []
        small = MailboxConfig(capacity=2)
        sender, target = spread(system, 2, log=log, mailbox=small)

        async def fill(ctx: Context) -> int:
            target.tell(lambda ctx: asyncio.sleep(2))
            refused = 0
            for number in range(10):
                try:
                    target.tell(number)
                except MailboxFull:
                    refused += 1
            return refused

        assert await sender.ask(fill) == 9  # nothing is taken in while the handler runs
        await target.send("in the end")
        await target.send("late")
        assert system.clock.now() == 2.0
        await system.settle()
        assert log == [0, "in the end", "late"]

    at_many_seeds(program)


def test_names_are_taken_on_all_loops() -> None:
    async def program(system: ActorSystem) -> None:
        refs = [system.spawn(Doer, name=f"actor-{number}", dispatcher="spread") for number in range(LOOPS)]
        for ref in refs:
            assert system.actor(ref.name) == ref
            assert await refs[0].ask(lambda ctx, ref=ref: ctx.system.actor(ref.name)) == ref
            with pytest.raises(NameTaken):
                system.spawn(Doer, name=ref.name, dispatcher="spread")
            with pytest.raises(NameTaken):
                await refs[1].ask(lambda ctx, ref=ref: ctx.system.spawn(Doer, name=ref.name) and None)

    at_many_seeds(program)


def test_a_look_at_the_whole_system_sees_all_loops() -> None:
    async def program(system: ActorSystem) -> None:
        refs = spread(system, 2 * LOOPS)
        for ref in refs:
            seen = await ref.ask(lambda ctx: (ctx.system.snapshot(), ctx.system.actors()))
            assert {actor.name for actor in seen[0].actors} == {ref.name for ref in refs}
            assert seen[0].ledger.in_hand == 1
            assert set(seen[1]) == set(refs)
        assert system.ledger().sent == len(refs)
        assert all(system.ledger(ref).handled == 1 for ref in refs)

    at_many_seeds(program)


def test_settle_waits_for_all_loops() -> None:
    async def program(system: ActorSystem) -> None:
        log: list[Any] = []
        refs = spread(system, log=log)

        async def hand_on(ctx: Context, left: int) -> None:
            if left:
                await asyncio.sleep(left % 2)
                refs[left % LOOPS].tell(lambda ctx: hand_on(ctx, left - 1))
            else:
                log.append("done")

        refs[0].tell(lambda ctx: hand_on(ctx, 10))
        await system.settle()
        assert log == ["done"]

    at_many_seeds(program)


def test_a_failure_that_an_asker_on_another_loop_is_told_fails_no_simulation() -> None:
    def fail(ctx: Context) -> None:
        raise AssertionError("on purpose")

    async def program(system: ActorSystem) -> None:
        refs = spread(system)
        for ref in refs:  # by the program, by a task of it, and by an actor
            with pytest.raises(AssertionError, match="on purpose"):
                await ref.ask(fail)
            told = await asyncio.gather(ref.ask(fail), ref.ask(fail), return_exceptions=True)
            assert [type(one) for one in told] == [AssertionError] * 2
            for other in refs:
                if other is not ref:
                    with pytest.raises(AssertionError, match="on purpose"):
                        await other.ask(lambda ctx, ref=ref: ref.ask(fail))

    at_many_seeds(program, SystemConfig(loops=LOOPS, supervision=Supervision(Directive.RESUME)))


def test_nothing_is_brought_to_a_real_system_of_several_loops() -> None:
    with ActorSystem("real", config=SystemConfig(loops=2)) as real:
        there = [real.spawn(Doer, dispatcher="spread") for _ in range(2)]

        async def program(system: ActorSystem) -> None:
            for look in (real.snapshot, real.actors, partial(real.spawn, Doer, dispatcher="spread")):
                with pytest.raises(SimulationRefused, match="another system"):
                    look()
            for ref in there:
                with pytest.raises(SimulationRefused, match="reaching for"):
                    ref.tell("hello")

        Simulation(config=THREE).run(program)
        assert len(real.actors()) == 2
        assert real.ledger().sent == 0


# Time


def test_timers_ring_in_the_order_of_virtual_time_whichever_loop_they_are_on() -> None:
    async def program(system: ActorSystem) -> None:
        log: list[Any] = []

        def note(ctx: Context) -> None:
            log.append((ctx.now(), ctx.name))

        refs = spread(system)
        delays = {refs[0]: (3.0, 60.0, 1.0), refs[1]: (2.0, 3600.0), refs[2]: (2.5, 0.5, 61.0)}
        for ref, seconds in delays.items():
            await ref.ask(lambda ctx, own=seconds: [ctx.send_after(one, ctx.self, note) for one in own] and None)
        await asyncio.sleep(3601)
        assert log == sorted((one, ref.name) for ref, seconds in delays.items() for one in seconds)

    at_many_seeds(program)


def test_a_timer_sends_to_an_actor_of_another_loop() -> None:
    async def program(system: ActorSystem) -> None:
        log: list[Any] = []
        first, second = spread(system, 2, log=log)
        await first.ask(lambda ctx: ctx.send_every(1.0, second, "tick") and None)
        await asyncio.sleep(5.5)
        assert log == ["tick"] * 5

    at_many_seeds(program)


def test_a_clock_that_is_turned_by_hand_is_that_of_all_loops() -> None:
    clock: list[ManualClock] = []

    async def program(system: ActorSystem) -> None:
        log: list[Any] = []
        for ref in spread(system, log=log):
            await ref.ask(lambda ctx: ctx.send_every(1.0, ctx.self, "tick") and None)
        await clock[-1].advance(3.0)
        assert log == ["tick"] * (3 * LOOPS)

    for seed in SEEDS:
        clock.append(ManualClock())
        Simulation(seed, config=SystemConfig(loops=LOOPS, clock=clock[-1])).run(program)


def test_a_session_lets_time_pass_on_all_loops() -> None:
    for seed in SEEDS:
        log: list[Any] = []
        with Simulation(seed, config=THREE).open() as session:
            refs = spread(session.system, log=log)  # from outside: nothing runs
            for ref in refs:
                ref.tell(lambda ctx: ctx.send_every(1.0, ctx.self, "tick") and None)
            session.settle()
            session.advance(2.5)
            assert log == ["tick"] * (2 * LOOPS)
            assert session.run(partial(refs[1].ask, "hello")) == "hello"
            told = [event for event in session.trace if event.kind == "told"]
            assert {event.actor for event in told} == {ref.path for ref in refs}


# The end


def test_a_shutdown_drains_all_loops_and_ends_all_that_hangs() -> None:
    async def program(system: ActorSystem) -> None:
        refs = spread(system, 2 * LOOPS, stop_timeout=1.0)
        for ref in refs[:LOOPS]:
            ref.tell(lambda ctx: asyncio.sleep(1.0))
        for ref in refs[LOOPS:]:
            ref.tell(lambda ctx: asyncio.Event().wait())
        await asyncio.sleep(0.5)
        await system.shutdown(timeout=10.0)
        assert system.report is not None
        assert sorted(system.report.forced) == sorted(ref.path for ref in refs[LOOPS:])

    at_many_seeds(program)


def test_an_actor_of_any_loop_can_end_the_system() -> None:
    for number in range(LOOPS):

        async def program(system: ActorSystem, number: int = number) -> None:
            refs = spread(system)
            refs[number].tell(lambda ctx: ctx.system.stop())
            await system.stopped()

        at_many_seeds(program)


def test_tasks_and_generators_that_are_left_on_a_loop_end_with_the_system() -> None:
    ended: list[Any] = []

    async def count(name: str) -> AsyncGenerator[int, None]:
        try:
            for number in range(10):
                yield number
        finally:
            ended.append(("generator", name))

    async def sleep(name: str) -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append(("task", name))
            raise

    async def program(system: ActorSystem) -> None:
        kept: list[Any] = []

        async def begin(ctx: Context) -> None:
            kept.append(asyncio.get_running_loop().create_task(sleep(ctx.name)))
            numbers = count(ctx.name)
            kept.append(numbers)
            await anext(numbers)

        refs = spread(system)
        for ref in refs:
            await ref.ask(begin)
        await system.shutdown()
        elsewhere = {ref.name for ref in refs[1:]}
        assert {name for _, name in ended} == elsewhere  # what is at home goes on, with the program
        assert len(ended) == 2 * len(elsewhere)
        ended.clear()

    for seed in SEEDS:
        ended.clear()
        Simulation(seed, config=THREE).run(program)


def test_a_simulation_that_cannot_go_on_says_who_waits_on_which_loop() -> None:
    async def program(system: ActorSystem) -> None:
        refs = [system.spawn(Doer, name=f"actor-{number}", dispatcher="spread") for number in range(LOOPS)]
        for ref in refs[1:]:
            ref.tell(lambda ctx: asyncio.Event().wait())
        await refs[2].ask("hello", timeout=None)

    with pytest.raises(SimulationStuck) as caught:
        Simulation(3, config=THREE).run(program)
    assert "/actor-1 waits in" in str(caught.value)
    assert "/actor-2 waits in" in str(caught.value)


def test_two_systems_of_several_loops_talk_to_each_other() -> None:
    async def main() -> None:
        async with ActorSystem("one", config=THREE) as one, ActorSystem("two", config=THREE) as two:
            here, there = spread(one), spread(two)
            for ref, other in zip(here, there, strict=True):
                assert await ref.ask(lambda ctx, other=other: other.ask(lambda ctx: ctx.system.name)) == "two"
                assert await other.ask(lambda ctx: one.snapshot().name) == "one"
            async with ActorSystem("single") as single:
                assert await here[1].ask(lambda ctx: single.snapshot().name) == "single"

    for seed in SEEDS:
        Simulation(seed).run_main(main)
