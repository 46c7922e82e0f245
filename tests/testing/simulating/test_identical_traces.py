"""One digest of a hundred simulations: both builds, every machine and every Python must come to the same (B1)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Backoff,
    Lane,
    MailboxConfig,
    Overflow,
    ReceiveTimeout,
    Supervision,
    SystemConfig,
)
from greenroom.errors import GreenroomError
from greenroom.testing import Simulation, faults

EXPECTED = "c62c95ad30ee468e2f4dd31b48c166699adf390fddbce3be6d03f4d26239bf4e"
"""What a hundred seeds come to. It changes when what actors do in a simulation does, and is then to be written anew."""

SEEDS = 100


@dataclass(frozen=True)
class Order:
    """So many, please."""

    number: int


class Stock(Actor[Any, Any]):
    """Has goods, refuses every seventh order by failing, and goes quiet now and then."""

    def __init__(self) -> None:
        self.left = 1000

    async def pre_start(self) -> None:
        await asyncio.sleep(self.ctx.system.random.random() / 8)
        self.ctx.set_receive_timeout(0.75)

    async def receive(self, message: Any) -> Any:
        if isinstance(message, ReceiveTimeout):
            return None
        if message.number % 7 == 6:
            raise ValueError(message.number)
        if message.number % 3 == 0:
            await asyncio.sleep(0.125)
        self.left -= message.number
        return self.left


class Shop(Actor[Any, Any]):
    """Orders by every way there is, on timers."""

    def __init__(self, stock: ActorRef[Any, Any]) -> None:
        self.stock = stock
        self.number = 0

    def pre_start(self) -> None:
        self.ctx.send_every(0.25, self.ctx.self, "order")
        self.ctx.send_after(0.5, self.ctx.self, ("count", 1.5))
        self.ctx.watch(self.stock)

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.ctx.stop()

    async def receive(self, message: Any) -> None:
        self.number += 1
        order = Order(self.number)
        with suppress(GreenroomError, TimeoutError, ValueError):
            if self.number % 4 == 0:
                async with asyncio.timeout(0.5):
                    await self.stock.ask(order)
            elif self.number % 4 == 1:
                await self.stock.send(order, timeout=0.25)
            elif self.number % 4 == 2:
                self.stock.tell(order, lane=Lane.MANAGEMENT)
            else:
                for _ in range(3):
                    self.stock.tell(order)


async def program(system: ActorSystem) -> int:
    """Four shops and two stocks for five seconds."""
    supervision = Supervision(max_restarts=None, backoff=Backoff(min=0.0625, max=0.5, jitter=0.25))
    small = MailboxConfig(capacity=1, overflow=Overflow.DROP_OLD)
    stocks = [
        system.spawn(Stock, name="stock-1", supervision=supervision),
        system.spawn(Stock, name="stock-2", supervision=supervision, mailbox=small),
    ]
    for number in range(4):
        system.spawn(Shop, stocks[number % 2], name=f"shop-{number}")
    await asyncio.sleep(5)
    return len(system.actors())


FAULTS = [
    faults.crash("shop-*", at=(2, 12), chance=0.5),
    faults.delay("shop-*", "stock-*", by=(0.0, 0.5), chance=0.25),
    faults.reorder(),
    faults.slow("stock-*", by=(0.0, 0.0625)),
    faults.fill("stock-1", at=(2, 9), lasting=(0.1, 1.0)),
    faults.stop("stock-*", at=(40, 400), chance=0.25),
]


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Have nothing logged: a thousand tracebacks take longer than all the rest."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def of_all_seeds(seeds: int = SEEDS) -> str:
    """One digest of all the traces: what happened, the texts that say so, and when it ended."""
    whole = hashlib.sha256()
    for seed in range(seeds):
        schedule = ("random", "pct", "fifo")[seed % 3]
        simulation = Simulation(seed, schedule=schedule, faults=FAULTS, config=SystemConfig())
        left = simulation.run(program)
        trace = simulation.trace
        whole.update(f"{seed} {left} {trace.digest} {trace.steps} {trace.seconds!r}\n".encode())
        whole.update(str(trace).encode())
    return whole.hexdigest()


def test_a_hundred_seeds_come_to_the_same_everywhere() -> None:
    assert of_all_seeds() == EXPECTED


def test_the_program_is_as_rich_as_it_should_be() -> None:
    kinds = set()
    for seed in range(12):
        simulation = Simulation(seed, faults=FAULTS)
        simulation.run(program)
        kinds |= {event.kind for event in simulation.trace}
    assert kinds >= {
        "told",
        "asked",
        "ticked",
        "taken",
        "answered",
        "refused",
        "failed",
        "started",
        "stopped",
        "restarted",
        "full",
        "dropped",
        "dead_letter",
        "injected",
    }


def test_the_hashes_of_texts_make_no_difference() -> None:
    text = "from tests.testing.simulating.test_identical_traces import of_all_seeds; print(of_all_seeds(6))"
    found = set()
    for hashes in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
            env={"PYTHONHASHSEED": hashes, "PYTHONPATH": ":".join(filter(None, sys.path))},
        )
        found.add(done.stdout.strip())
    assert found == {of_all_seeds(6)}
