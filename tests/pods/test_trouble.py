"""What goes wrong with pods, and how it is told: starts that fail or never end, long handlers, lost messages."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Lane, SystemConfig, props
from greenroom.errors import StartTimeout
from greenroom.pods import (
    Buffers,
    Bursts,
    Handles,
    KubeletConfig,
    Pod,
    PodGone,
    PodPhase,
    RingFull,
    ServiceHandle,
    ShutdownMode,
    ThreadModel,
    Troupe,
    TroupeFailed,
)
from greenroom.testing import Simulation, assert_ledger_balanced, explore
from tests.pods.troupes import (
    PATIENCE,
    Diary,
    Hold,
    InThread,
    Phases,
    assert_over,
    doer,
    fail_with,
    playing,
    troupe_class,
)

THREADS = (ThreadModel.DEDICATED, ThreadModel.COOPERATIVE)


def broken() -> Actor[Any, None]:
    raise ValueError("no such device")


@pytest.mark.parametrize("thread", THREADS)
def test_a_factory_that_raises_at_every_start_ends_the_troupe_at_the_gate(thread: ThreadModel) -> None:  # K13 K11
    troupe = troupe_class(worker=Pod(broken, thread=thread, expose=True)).new(kubelet=KubeletConfig(max_restarts=3))
    worker = troupe.exposed().worker
    worker.send("early")
    error = InThread(troupe.play).join()
    assert isinstance(error, TroupeFailed)
    assert (error.pod, repr(error.__cause__)) == ("worker", "ValueError('no such device')")
    with pytest.raises(PodGone):
        worker.clone().send("late")
    assert troupe.status["worker"].restarts == 3
    assert_over(troupe)
    assert troupe.system.ledger().dead_lettered == 1


class Stuck(Actor[Any, None]):
    """Never comes to run."""

    def __init__(self, begin: Callable[[], object] = lambda: None) -> None:
        self.begin = begin

    async def pre_start(self) -> None:
        self.begin()
        await asyncio.get_running_loop().create_future()

    def receive(self, message: Any) -> None: ...


def test_an_actor_that_reaches_for_its_peers_too_early_is_told_when_it_has_them(
    caplog: pytest.LogCaptureFixture,
) -> None:  # K9 K17
    class Hasty(Actor[Any, None]):
        def __init__(self) -> None:
            self.out = self.peers.other  # type: ignore[attr-defined]

        def receive(self, message: Any) -> None: ...

    troupe = troupe_class(worker=Pod(Hasty), other=Pod(doer(Diary()))).new(kubelet=KubeletConfig(max_restarts=0))
    failed = InThread(troupe.play).join()
    assert isinstance(failed, TroupeFailed)
    assert "an actor has `peers` from `pre_start` on" in str(failed.__cause__.__notes__)  # type: ignore[union-attr]


def test_a_pod_that_never_starts_fails_at_its_deadline() -> None:  # K13
    config = SystemConfig(start_timeout=0.05)
    troupe = troupe_class(worker=Pod(Stuck, expose=True)).new(kubelet=KubeletConfig(max_restarts=0), config=config)
    error = InThread(troupe.play).join()
    assert isinstance(error, TroupeFailed)
    assert isinstance(error.__cause__, StartTimeout)
    assert_over(troupe)


def test_who_sends_to_a_pod_that_does_not_start_is_told_so() -> None:  # K13 K4
    config = SystemConfig(stop_timeout=0.05)
    troupe = troupe_class(worker=Pod(Stuck, expose=True, buffers=Buffers(data=2))).new(config=config)
    with playing(troupe):
        worker = troupe.exposed().worker
        worker.send(1)
        worker.send(2)
        with pytest.raises(RingFull, match="does not run yet"):
            worker.send(3, timeout=0.01)
        troupe.stop(ShutdownMode.IMMEDIATE)


@pytest.mark.parametrize("thread", THREADS)
def test_an_actor_that_will_not_stop_has_the_time_that_the_systems_config_says(thread: ThreadModel) -> None:  # K16
    async def main() -> float:
        begun = asyncio.Event()
        config, kubelet = SystemConfig(stop_timeout=0.25), KubeletConfig(drain_timeout=3600.0)
        troupe = troupe_class(worker=Pod(props(Stuck, begun.set), thread=thread)).new(config=config, kubelet=kubelet)
        async with troupe:
            await begun.wait()
            told = asyncio.get_running_loop().time()
            await troupe.shutdown(ShutdownMode.IMMEDIATE)
            return asyncio.get_running_loop().time() - told

    assert Simulation(0).run_main(main) == pytest.approx(0.25)


@pytest.mark.parametrize("thread", THREADS)
def test_the_log_says_who_a_troupe_that_ends_has_waited_for(
    thread: ThreadModel, caplog: pytest.LogCaptureFixture
) -> None:  # K16
    begun = threading.Event()
    troupe = troupe_class(worker=Pod(props(Stuck, begun.set), thread=thread)).new()
    with caplog.at_level(logging.WARNING, "greenroom"), playing(troupe) as call:
        assert begun.wait(PATIENCE)
        troupe.stop(ShutdownMode.DRAIN_ALL, timeout=0.05)
        call.join()
    assert "draining: /worker/worker; no message was discarded" in caplog.text


@pytest.mark.parametrize("thread", THREADS)
def test_a_pod_to_which_nobody_sends_is_restarted_all_the_same(thread: ThreadModel) -> None:  # K11
    diary = Diary()
    born = Diary()
    troupe = troupe_class(worker=Pod(doer(diary, lambda: born.write("born")), thread=thread)).new()
    phases = Phases(troupe)
    with playing(troupe):
        phases.wait("worker", PodPhase.RUNNING)
        actor = troupe.system.actor("/worker/worker")
        assert actor is not None
        actor.fail(ValueError("from outside"))
        phases.wait("worker", PodPhase.RUNNING, restarts=1)
        born.wait_for_count(2)


def test_a_long_handler_delays_control_by_itself_and_no_more_and_is_reported() -> None:  # K12 K14
    class Slow:
        def __init__(self) -> None:
            self.told = Diary()

        def slow_handler(self, ref: object, message: Any, seconds: float) -> None:
            self.told.write((str(ref), message, seconds))

    diary, hold, slow = Diary(), Hold(), Slow()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True)).new(config=SystemConfig(slow_after=0.001))
    troupe.system.observers.add(slow)
    with playing(troupe):
        worker = troupe.exposed().worker
        worker.send(hold)
        hold.wait()
        for number in range(1000):
            worker.send(number)
        worker.send("control", lane=Lane.CONTROL)
        threading.Event().wait(0.01)  # what is to be reported
        hold.release()
        diary.wait_for(999)
        assert diary.entries[0] == "control"
        ref, message, seconds = slow.told.wait_for_count(1)[0]
        assert (ref, message) == ("/worker/worker", hold)
        assert seconds >= 0.01


class Lossy(Actor[Any, None]):
    """Keeps what it has not sent on in itself: a restart loses that. The fault that is planted."""

    peers: LossyPeers

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def receive(self, message: Any) -> None:
        if isinstance(message, Exception):
            raise message
        self.kept.append(message)
        if len(self.kept) == 2:
            for one in self.kept:
                self.peers.sink.send(one)
            self.kept.clear()


class LossyPeers(Handles):
    sink: ServiceHandle[Any]


@pytest.mark.parametrize("thread", THREADS)
def test_explore_finds_a_planted_lost_message(thread: ThreadModel) -> None:  # B1 K11
    async def program(system: ActorSystem) -> None:
        diary = Diary()
        made = troupe_class(
            lossy=Pod(Lossy, thread=thread, expose=True, bursts=Bursts(1, 1, 1, 1)),
            sink=Pod(doer(diary), expose=True),
            killer=Pod(props(Killer), expose=True),
        )
        async with made.new() as troupe:
            troupe.exposed().killer.send("now")
            for number in range(4):
                await troupe.exposed().lossy.asend(number)
                await asyncio.sleep(0)
            await troupe.system.settle()
            assert_ledger_balanced(troupe.system)
        assert sorted(diary.entries) == [0, 1, 2, 3]

    report = explore(program, runs=200, workers=1)
    assert report.failure is not None
    assert isinstance(report.failure.error, AssertionError)


class Killer(Actor[Any, None]):
    """Lets the other pod fail, at whatever moment the schedule has it run."""

    peers: KillerPeers

    def receive(self, message: Any) -> None:
        self.peers.lossy.send(ValueError("killed"))


class KillerPeers(Handles):
    lossy: ServiceHandle[Any]


def test_a_troupe_of_one_cooperative_pod_fails_in_a_block_with_the_cause() -> None:  # K13
    diary = Diary()
    troupe: Troupe[Any] = troupe_class(worker=Pod(doer(diary), thread=ThreadModel.COOPERATIVE, expose=True)).new(
        kubelet=KubeletConfig(max_restarts=0)
    )

    def block() -> None:
        with troupe:
            troupe.exposed().worker.send(fail_with(ValueError("boom")))
            troupe.system._shutdown.over.wait(120.0)

    error = InThread(block).join()
    assert isinstance(error, TroupeFailed)
    assert repr(error.__cause__) == "ValueError('boom')"
