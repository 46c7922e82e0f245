"""A small troupe with every thread model in simulations: at any schedule, what was sent is accounted for."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Backoff, Lane, OnRestart, props
from greenroom.errors import ConnectTimeout, PodGone, RingFull, SimulationRefused, TroupeFailed
from greenroom.ledger import Ledger
from greenroom.pods import Buffers, Bursts, KubeletConfig, Pod, ShutdownMode, ThreadModel, Troupe
from greenroom.testing import Simulation, assert_ledger_balanced, explore
from tests.pods.troupes import Diary, doer, troupe_class

SENT = 12
REFUSED = (PodGone, ConnectTimeout, RingFull)


class Books:
    """What was sent, and what became of it, by what it is."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []
        self.handled: list[tuple[str, int]] = []
        self.failed: list[tuple[str, int]] = []
        self.dead: list[tuple[str, int]] = []

    def check(self, ledger: Ledger) -> None:
        """All is accounted for once, and each sender's messages were taken in order."""
        assert ledger.balanced
        assert ledger.queued == ledger.in_hand == ledger.lost == ledger.unhandled == 0, ledger
        assert sorted(self.sent) == sorted(self.handled + self.failed + self.dead)
        assert (ledger.sent, ledger.handled) == (len(self.sent), len(self.handled))
        assert (ledger.failed, ledger.dead_lettered) == (len(self.failed), len(self.dead))
        for sender in {sender for sender, _ in self.handled}:
            numbers = [number for one, number in self.handled if one == sender]
            assert all(before < after for before, after in pairwise(numbers)), numbers


class Link(Actor[Any, None]):
    """Crashes now and then, and sends on what it handles."""

    def __init__(self, books: Books, next_one: str | None, crashes: float, asends: bool) -> None:
        self.books = books
        self.asends = asends
        self.next_one = next_one
        self.crashes = crashes

    async def receive(self, message: Any) -> None:
        if isinstance(message, Exception):
            raise message
        if self.ctx.system.random.random() < self.crashes:
            self.books.failed.append(message)
            raise ValueError(message)
        if self.next_one is not None:
            peer = getattr(self.peers, self.next_one)  # type: ignore[attr-defined]
            name, number = f"{message[0]}>{self.ctx.name}", message[1]
            try:
                if self.asends and number % 2:
                    await peer.asend((name, number))
                else:
                    peer.send((name, number), timeout=0.0)
            except REFUSED:
                pass
            else:
                self.books.sent.append((name, number))
        self.books.handled.append(message)


def chain(
    books: Books, crashes: float, on_restart: OnRestart = OnRestart.KEEP, asends: bool = False
) -> type[Troupe[Any]]:
    """Three links, each on a thread of its own kind, that send to one another in a row."""
    settings: dict[str, Any] = {"buffers": Buffers(4, 4, 4, 4), "bursts": Bursts(2, 2, 2, 2)}
    pods = {
        "first": Pod(props(Link, books, "second", crashes, asends), expose=True, on_restart=on_restart, **settings),
        "second": Pod(
            props(Link, books, "third", crashes, asends),
            thread=ThreadModel.COOPERATIVE,
            on_restart=on_restart,
            **settings,
        ),
        "third": Pod(props(Link, books, None, 0.0, asends), thread=ThreadModel.MAIN, expose=True, **settings),
    }
    return type("Chain", (Troupe,), pods)


async def play_chain(
    crashes: float, mode: ShutdownMode, on_restart: OnRestart, backoff: Backoff | None, asends: bool = False
) -> None:
    books = Books()
    config = KubeletConfig(max_restarts=None, shutdown=mode, backoff=backoff, drain_timeout=60.0)
    troupe = chain(books, crashes, on_restart, asends).new(kubelet=config)
    troupe.system.dead_letters.subscribe(lambda letter: books.dead.append(letter.message))

    async def send(sender: str, handle: Any) -> None:
        for number in range(SENT):
            try:
                await handle.asend((sender, number))
            except REFUSED:
                return
            books.sent.append((sender, number))

    first = troupe.exposed().first
    async with troupe:
        await asyncio.gather(send("a", first), send("b", first.clone()), send("c", troupe.exposed().third))
        if mode is ShutdownMode.DRAIN_ALL:
            await troupe.system.settle()
    books.check(assert_ledger_balanced(troupe.system))
    assert all(status.is_over for status in troupe.status.values()), troupe.status


@pytest.mark.parametrize("schedule", ["random", "pct"])
@pytest.mark.parametrize("backoff", [None, Backoff(min=0.1, max=1.0)], ids=["at once", "backoff"])
@pytest.mark.parametrize("on_restart", OnRestart)
@pytest.mark.parametrize("asends", [False, True], ids=["sends", "asends"])
@pytest.mark.parametrize("mode", ShutdownMode, ids=lambda mode: mode.value)
def test_with_crashes_at_any_schedule_all_that_was_sent_is_accounted_for(
    mode: ShutdownMode, asends: bool, on_restart: OnRestart, backoff: Backoff | None, schedule: str
) -> None:  # K4, K11, K16
    async def main() -> None:
        await play_chain(0.15, mode, on_restart, backoff, asends)

    for seed in range(500 // 24):
        simulation = Simulation(seed, schedule=schedule)
        try:
            simulation.run_main(main)
        except BaseException as error:
            error.add_note(f"in {simulation!r}")
            raise


def test_five_hundred_schedules_lose_nothing() -> None:  # K4, K11
    async def program(system: ActorSystem) -> None:
        await play_chain(0.15, ShutdownMode.DRAIN_ALL, OnRestart.KEEP, None)

    report = explore(program, runs=500, workers=1)
    report.raise_failure()


def test_a_troupe_in_a_simulation_goes_the_same_way_each_time() -> None:  # K7
    async def main() -> None:
        await play_chain(0.2, ShutdownMode.DRAIN_ALL, OnRestart.KEEP, Backoff(min=0.1, max=1.0))

    for seed in range(5):
        simulation = Simulation(seed)
        simulation.run_main(main)
        first = simulation.trace.digest
        simulation.run_main(main)
        assert simulation.trace.digest == first


def test_a_main_pod_that_fails_ends_the_block_with_its_cause() -> None:  # case 64
    async def main() -> None:
        books = Books()
        troupe = chain(books, 0.0).new()
        error = ValueError("bad")

        async def fail() -> None:
            async with troupe:
                await troupe.exposed().third.asend(error, lane=Lane.CONTROL)
                await asyncio.Event().wait()

        with pytest.raises((TroupeFailed, ExceptionGroup)):
            await fail()
        assert_ledger_balanced(troupe.system)

    for seed in range(20):
        Simulation(seed).run_main(main)


def test_without_crashes_all_is_handled_in_order() -> None:  # K4
    async def main() -> None:
        books = Books()
        troupe = chain(books, 0.0).new(kubelet=KubeletConfig(connect_timeout=60.0))
        first = troupe.exposed().first
        async with troupe:
            for number in range(SENT):
                await first.asend(("a", number))
                books.sent.append(("a", number))
            await troupe.system.settle()
        books.check(assert_ledger_balanced(troupe.system))
        assert books.failed == books.dead == []
        assert [number for sender, number in books.handled if sender == "a"] == list(range(SENT))

    for seed in range(100):
        Simulation(seed).run_main(main)


def test_a_troupe_in_a_simulation_is_run_by_async_with() -> None:
    async def program(system: ActorSystem) -> None:
        troupe = troupe_class(one=Pod(doer(Diary()))).new()
        with pytest.raises(SimulationRefused, match="use `async with troupe:`"), troupe:
            pass
        async with troupe:
            pass

    Simulation(seed=1).run(program)
