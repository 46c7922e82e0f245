"""A shutdown that is cancelled, or that comes at any moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Lane,
    MailboxConfig,
    ManualClock,
    Overflow,
    Supervision,
    SystemConfig,
    SystemFailed,
)
from greenroom.errors import GreenroomError
from greenroom.testing import Simulation, assert_ledger_balanced, faults
from tests.conformance.lives import report_of

DISPATCHERS = ["concurrent", "parallel", "pinned", "process"]
PATIENCE = 120.0
SOON = 1.0
"""Seconds that the actors of a cancelled block have to stop."""


class Stubborn(Actor[str, None]):
    """Says that it is busy, and then ignores that it is cancelled."""

    def __init__(self, ear: ActorRef[str]) -> None:
        self.ear = ear

    async def receive(self, message: str) -> None:
        self.ear.tell("busy")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.ear.tell("cancelled")


class SlowToStop(Actor[str, None]):
    """Takes for ever to stop, unless it is cancelled."""

    def __init__(self, ear: ActorRef[str]) -> None:
        self.ear = ear

    def receive(self, message: str) -> None:
        self.ear.tell("busy")

    async def pre_stop(self) -> None:
        self.ear.tell("stopping")
        await asyncio.Event().wait()


class Tidy(Actor[str, None]):
    """Awaits something in its handler, and something else while it cleans up."""

    def __init__(self, ear: ActorRef[str]) -> None:
        self.ear = ear

    async def receive(self, message: str) -> None:
        self.ear.tell("busy")
        await asyncio.Event().wait()

    async def post_stop(self) -> None:
        await asyncio.sleep(0.0)
        self.ear.tell("tidied up")


class Stage:
    """A block with one actor in it, in a task of its own that can be cancelled."""

    def __init__(self, kind: type[Actor], dispatcher: str) -> None:
        self.clock = ManualClock()
        self.system = ActorSystem("hurried", config=SystemConfig(clock=self.clock, stop_timeout=1e6))
        self.heard: list[str] = []
        self._ears: dict[str, asyncio.Event] = {}
        self._kind = kind
        self._dispatcher = dispatcher
        self.ref: ActorRef[Any] | None = None

    def hear(self, ctx: object, message: str) -> None:
        """Note what an actor tells; from when the ear has stopped on, dead letters are where that is heard."""
        self.heard.append(message)
        self._ears.setdefault(message, asyncio.Event()).set()

    async def heeds(self, message: str) -> None:
        await self._ears.setdefault(message, asyncio.Event()).wait()

    async def block(self, stays: bool) -> None:
        async with self.system as system:
            system.dead_letters.subscribe(lambda letter: self.hear(None, letter.message))
            ear = system.spawn(self.hear, name="ear", dispatcher="concurrent")
            self.ref = system.spawn(self._kind, ear, dispatcher=self._dispatcher)
            self.ref.tell("go")
            await self.heeds("busy")
            self._ears.setdefault("entered", asyncio.Event()).set()
            if stays:
                await asyncio.Event().wait()

    async def cancel_inside(self) -> asyncio.Task[None]:
        """Cancel the task in the block; return it when the actor has heard of that."""
        task = asyncio.create_task(self.block(stays=True))
        await self.heeds("entered")
        task.cancel()
        await self.heeds("cancelled" if self._kind is Stubborn else "stopping")
        return task

    async def expect_cut_off(self, task: asyncio.Task[None]) -> None:
        with pytest.raises(asyncio.CancelledError):
            await task
        self.expect_over(forced=True)

    def expect_over(self, *, forced: bool) -> None:
        report = self.system.report
        assert report is not None
        assert self.system.phase == "stopped"
        assert report.started == report.terminated == 2
        assert self.ref is not None
        assert report.forced == ((self.ref.path,) if forced else ())
        assert self.system.actors() == []
        ledger = assert_ledger_balanced(self.system)
        assert ledger.queued == ledger.in_hand == 0
        assert not [one for one in threading.enumerate() if one.name.startswith("hurried")]


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(in_time())


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("kind", [Stubborn, SlowToStop])
def test_a_block_that_is_cancelled_inside_gives_its_actors_a_second(kind: type[Actor], dispatcher: str) -> None:  # M11
    async def main() -> None:
        stage = Stage(kind, dispatcher)
        task = await stage.cancel_inside()
        assert not task.done()
        await stage.clock.advance(SOON)
        await stage.expect_cut_off(task)

    run(main)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_cancelled_block_cancels_handlers_and_lets_hooks_run(dispatcher: str) -> None:  # M11
    async def main() -> None:
        stage = Stage(Tidy, dispatcher)
        task = asyncio.create_task(stage.block(stays=True))
        await stage.heeds("entered")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stage.heard == ["busy", "tidied up"]
        stage.expect_over(forced=True)

    run(main)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("kind", [Stubborn, SlowToStop])
def test_a_block_that_is_cancelled_twice_ends_at_once(kind: type[Actor], dispatcher: str) -> None:  # M11
    async def main() -> None:
        stage = Stage(kind, dispatcher)
        task = await stage.cancel_inside()
        task.cancel()
        await stage.expect_cut_off(task)

    run(main)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_block_that_is_cancelled_as_it_is_left_ends_as_soon(dispatcher: str) -> None:  # M11
    async def main() -> None:
        stage = Stage(SlowToStop, dispatcher)
        task = asyncio.create_task(stage.block(stays=False))
        await stage.heeds("stopping")
        task.cancel()
        await stage.clock.advance(SOON)
        await stage.expect_cut_off(task)

    run(main)


def test_a_block_that_has_been_left_for_a_second_is_over_when_its_timeout_strikes() -> None:  # M11
    async def main() -> None:
        stage = Stage(SlowToStop, "concurrent")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON):
                await stage.block(stays=False)
        stage.expect_over(forced=True)

    run(main)


def test_a_block_that_is_cancelled_and_has_nobody_to_wait_for_ends_at_once() -> None:  # M11
    async def main() -> None:
        system = ActorSystem("idle")

        async def block() -> None:
            async with system:
                await asyncio.Event().wait()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.create_task(block()), 0.001)
        assert report_of(system).forced == ()

    run(main)


def test_cancelling_who_awaits_the_shutdown_only_ends_the_waiting() -> None:  # M11
    async def main() -> None:
        stage = Stage(SlowToStop, "concurrent")
        block = asyncio.create_task(stage.block(stays=True))
        await stage.heeds("entered")
        shutdown = asyncio.create_task(stage.system.shutdown(timeout=10.0))
        await stage.heeds("stopping")
        shutdown.cancel()
        with pytest.raises(asyncio.CancelledError):
            await shutdown
        assert stage.system.phase == "stopping"
        await stage.clock.advance(9.0)
        assert stage.system.report is None
        await stage.clock.advance(1.0)
        await stage.system.stopped()
        block.cancel()
        with pytest.raises(asyncio.CancelledError):
            await block
        stage.expect_over(forced=True)

    run(main)


def test_the_end_of_asyncio_ends_a_system_whose_shutdown_was_just_requested() -> None:  # M11
    made: list[ActorSystem] = []

    async def block() -> None:
        async with ActorSystem("late") as system:
            made.append(system)
            system.spawn(SlowToStop, system.spawn(lambda ctx, message: None))
            await asyncio.sleep(0)
            system.stop()

    async def main() -> None:
        asyncio.create_task(block())  # noqa: RUF006 - asyncio.run cancels it
        for _ in range(2):
            await asyncio.sleep(0)

    asyncio.run(main())
    (system,) = made
    assert system.phase == "stopped"
    assert system.report is not None
    assert system.actors() == []


def test_a_failure_is_told_by_a_block_that_nobody_cancels() -> None:  # M11
    async def main() -> None:
        with pytest.raises(SystemFailed):
            async with ActorSystem("failed") as system:
                system.fail(ValueError("no"))

    run(main)


STOP_TIMEOUT = 2.0
LAST_MOMENT = 1500
CONFIG = SystemConfig(stop_timeout=STOP_TIMEOUT, supervision=Supervision(max_restarts=None))


class Worker(Actor[int, int]):
    """Passes work on: by tell, by ask, after a while, and to itself."""

    def __init__(self, crew: list[ActorRef[int, int]], place: int) -> None:
        self.crew = crew
        self.place = place

    async def pre_start(self) -> None:
        self.ctx.send_every(0.01, self.ctx.self, 1)
        if self.place % 3 == 0:
            await asyncio.sleep(0.001)

    async def receive(self, message: int) -> int:
        peer = self.crew[(self.place * 7 + message) % len(self.crew)]
        try:
            if message % 5 == 0:
                await asyncio.sleep(0.003)
            elif message % 5 == 1:
                peer.tell(message + 1, lane=Lane.CONTROL if message % 2 else Lane.DATA)
            elif message % 5 == 2 and peer is not self.ctx.self:
                return await peer.ask(message + 3, timeout=0.05)
            elif message % 5 == 3:
                self.ctx.spawn(Child).tell(message)
            else:
                await peer.send(message + 2, timeout=0.02)
        except GreenroomError:
            pass  # its peer is full, waits for it, or has ended
        return message

    async def post_stop(self) -> None:
        if self.place == 4:
            await asyncio.sleep(2 * STOP_TIMEOUT)  # it would not stop in time


class Child(Actor[int, None]):
    """Fails now and then, and ends."""

    def receive(self, message: int) -> Any:
        if message % 2:
            raise ValueError("odd")
        self.ctx.stop()


MAILBOXES = [MailboxConfig(capacity=4), MailboxConfig(capacity=3, overflow=Overflow.DROP_OLD), MailboxConfig()]


async def work_until_the_end(system: ActorSystem) -> None:
    """Keep everybody busy until the system is stopped."""
    crew: list[ActorRef[int, int]] = []
    crew.extend(system.spawn(Worker, crew, place, mailbox=MAILBOXES[place % 3]) for place in range(12))
    for number in range(60):
        if system.phase == "running":
            try:
                crew[number % 12].tell(number)
            except GreenroomError:
                await asyncio.sleep(0)
    await system.stopped()


def shut_down_at(seed: int) -> None:
    simulation = Simulation(
        seed,
        schedule="pct" if seed % 3 == 0 else "random",
        faults=[
            faults.shutdown(at=(1, LAST_MOMENT)),
            faults.crash(Worker, at=(1, 30), chance=0.3),
            faults.delay(by=(0.0, 0.01), chance=0.2),
            faults.slow(Child, by=(0.0, 0.002), chance=0.2),
            faults.fill(Worker, at=(1, 20), lasting=(0.0, 0.05), chance=0.3),
        ],
        config=CONFIG,
        keep=0,
    )
    simulation.run(work_until_the_end)
    system = simulation.system
    assert system is not None
    ledger = assert_ledger_balanced(system)
    assert ledger.queued == ledger.in_hand == 0
    assert system.actors() == []
    assert system.report is not None
    assert system.report.seconds <= STOP_TIMEOUT + 0.1
    assert system.report.started == system.report.terminated


@pytest.mark.parametrize("tens", range(6))
def test_it_ends_in_time_and_loses_nothing_at_any_moment(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        shut_down_at(seed)


@pytest.mark.slow
def test_it_ends_in_time_and_loses_nothing_at_a_thousand_moments() -> None:
    for seed in range(1000):
        shut_down_at(seed)
