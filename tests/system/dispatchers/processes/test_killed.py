"""Workers that are killed under traffic (R6), and what they do when they end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter as Tally
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, MailboxConfig, MailboxFull, Process, Supervision, SystemConfig
from greenroom.testing import assert_ledger_balanced
from tests.system.dispatchers.processes.conftest import children, fds
from tests.system.dispatchers.processes.guests import Relay, Stasher
from tests.system.dispatchers.processes.test_messages import ONE

KILLS = 10
ACTORS = 4


class Collector(Actor[Any, Any]):
    """Takes what passed through the workers, at home; sees whether it comes in order, and never twice."""

    def __init__(self, last: list[int], arrived: Tally[int]) -> None:
        self.last = last
        self.arrived = arrived

    def receive(self, message: tuple[int, int]) -> None:
        who, number = message
        assert number > self.last[who], (who, number, self.last[who])
        self.last[who] = number
        self.arrived[who] += 1


class Source(Actor[Any, Any]):
    """Sends numbered messages to all, as long as they take them, and goes on."""

    def __init__(self, targets: list[Any], sent: list[int]) -> None:
        self.targets = targets
        self.sent = sent

    def receive(self, message: str) -> None:
        if message == "stop":
            self.ctx.stop()
            return
        for who, ref in enumerate(self.targets):
            try:
                for _ in range(50):
                    ref.tell((who, self.sent[who]))
                    self.sent[who] += 1
            except MailboxFull:
                pass
        self.ctx.self.tell("go on")


@pytest.mark.parametrize("kills", [KILLS, pytest.param(100, marks=pytest.mark.slow)])
def test_a_worker_killed_under_traffic_loses_nothing_that_the_ledger_does_not_know(
    kills: int, caplog: pytest.LogCaptureFixture
) -> None:  # R6
    caplog.set_level("CRITICAL")
    before, started = len(fds()), children()
    asyncio.run(asyncio.wait_for(_kill_under_traffic(kills), 30.0 + 3.0 * kills))
    assert len(fds()) <= before + 2  # what asyncio itself may hold on to
    assert children() <= started


async def _kill_under_traffic(kills: int) -> None:
    dice = random.Random(6)
    config = SystemConfig(
        dispatchers={"process": Process(workers=2)},
        supervision=Supervision(backoff=None, max_restarts=10 * kills, within=1.0),
    )
    last, sent, arrived = [-1] * ACTORS, [0] * ACTORS, Tally[int]()
    async with ActorSystem(config=config) as system:
        collector = system.spawn(Collector, last, arrived, mailbox=MailboxConfig(capacity=10_000_000))
        refs = [
            system.spawn(Relay, collector, dispatcher="process", mailbox=MailboxConfig(capacity=500))
            for _ in range(ACTORS)
        ]
        for ref in refs:
            await ref.started()
        source = system.spawn(Source, refs, sent)
        source.tell("go on")
        for _ in range(kills):
            await asyncio.sleep(dice.uniform(0.0, 0.05))  # random moments: there is nothing to wait for
            pids = system.dispatchers.processes.get("process", [])
            if pids:
                os.kill(dice.choice(pids), signal.SIGKILL)
            for ref in refs:
                while True:
                    handled = system.ledger(ref).handled
                    await asyncio.sleep(0)
                    if system.ledger(ref).handled > handled:
                        break  # it is back, and works
        source.tell("stop")
        await source.terminated()
        await system.settle()
        assert_ledger_balanced(system)
        for who, ref in enumerate(refs):
            ledger = system.ledger(ref)
            assert ledger.sent == sent[who]
            assert ledger.handled + ledger.lost == ledger.sent, ledger
            # What is known to be handled has had its effect; of what is lost, nobody knows.
            assert ledger.handled <= arrived[who] <= ledger.handled + ledger.lost
        assert system.ledger().lost > 0
        assert sum(one.restarts for one in system.snapshot().actors) >= kills


def test_what_is_to_be_done_when_a_program_ends_is_done_by_a_worker_too(tmp_path: Path) -> None:
    with ActorSystem(config=ONE) as system:
        ref = system.spawn(Relay, tmp_path, dispatcher="process")
        assert ref.ask_sync("atexit") is None
    deadline = monotonic() + 120.0
    while not (tmp_path / "left").exists():
        assert monotonic() < deadline
        sleep(0.01)


@pytest.mark.parametrize("behind", [0, 3])
async def test_an_ask_that_a_guest_has_stashed_outlives_its_worker(behind: int) -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Stasher, dispatcher="process")
        asked = ref.ask("kept")
        for number in range(behind):
            ref.tell(number)
        await system.settle()
        (pid,) = system.dispatchers.processes["process"]
        os.kill(pid, signal.SIGKILL)
        while not system.snapshot().actors[0].restarts:  # noqa: ASYNC110 - nobody tells when
            await asyncio.sleep(0)
        assert await ref.ask("open") == 1 + behind
        assert await asked is None
        await system.settle()
        assert system.ledger(ref).lost == 0
        assert_ledger_balanced(system)
