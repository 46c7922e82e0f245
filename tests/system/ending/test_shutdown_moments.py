"""A shutdown under full load, at any moment: it ends within its deadline, and every message is accounted for (R4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Lane, MailboxConfig, Overflow, Supervision, SystemConfig
from greenroom.errors import GreenroomError
from greenroom.testing import Simulation, assert_ledger_balanced, faults

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
