"""Troupes as a whole: several in one process, dropped ones, what they cost, and starts and handlers in trouble."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorSystem, Lane, SystemConfig, props
from greenroom._core.connections.spscring import rings_made
from greenroom.errors import NoThread, StartTimeout, SystemStopped, WaitsForItself
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
    finish,
    playing,
    troupe_class,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENT = KubeletConfig(max_restarts=None, connect_timeout=PATIENCE)


def test_two_troupes_in_one_process_know_nothing_of_each_other() -> None:  # K9, K15
    diaries = [Diary(), Diary()]
    studios = [
        troupe_class(worker=Pod(doer(diary), expose=True), helper=Pod(doer(diary), thread=ThreadModel.COOPERATIVE))
        for diary in diaries
    ]
    one, two = (studio.new(kubelet=PATIENT) for studio in studios)
    phases = Phases(one)
    with playing(two) as other:
        with playing(one):
            one.exposed().worker.send(fail_with(ValueError("bad")))
            phases.wait("worker", PodPhase.RUNNING, restarts=1)
            two.exposed().worker.send("two")
            diaries[1].wait_for("two")
        with pytest.raises(PodGone):
            one.exposed().worker.send("late")
        assert not other.is_over
        two.exposed().worker.send("still there")
        diaries[1].wait_for("still there")
    assert two.status["worker"].restarts == 0


def test_a_handle_of_one_troupe_may_be_used_in_another() -> None:  # K15
    diary = Diary()
    inner = troupe_class(worker=Pod(doer(diary), expose=True)).new(kubelet=PATIENT)
    outer = troupe_class(sender=Pod(doer(Diary()), expose=True)).new(kubelet=PATIENT)
    handle = inner.exposed().worker.clone()
    phases = Phases(inner)
    with playing(inner), playing(outer):
        outer.exposed().sender.send(lambda actor: handle.send("before"))
        diary.wait_for("before")
        inner.exposed().worker.send(fail_with(ValueError("bad")))
        phases.wait("worker", PodPhase.RUNNING, restarts=1)
        outer.exposed().sender.send(lambda actor: handle.send("after"))
        diary.wait_for("after")


def test_a_troupe_that_is_dropped_without_playing_is_forgotten() -> None:  # K10
    troupe = troupe_class(worker=Pod(doer(Diary()), expose=True)).new()
    troupe.exposed().worker.send("never handled")
    found = weakref.ref(troupe), weakref.ref(troupe.system)
    del troupe
    gc.collect()
    assert [one() for one in found] == [None, None]


def test_a_troupe_that_has_played_leaves_no_thread_and_nothing_else() -> None:  # K9
    before = set(threading.enumerate())
    diary = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), expose=True),
        helper=Pod(doer(diary), thread=ThreadModel.COOPERATIVE, expose=True),
        window=Pod(doer(diary), thread=ThreadModel.MAIN, expose=True),
    ).new()
    for name in troupe.exposed():
        getattr(troupe.exposed(), name).send(name)
    with playing(troupe):
        diary.wait_for("worker", "helper", "window")
    assert set(threading.enumerate()) <= before
    found = weakref.ref(troupe), weakref.ref(troupe.system)
    del troupe
    gc.collect()
    assert [one() for one in found] == [None, None]


def test_plain_threads_may_send_while_play_ends() -> None:  # K4, K5
    for _ in range(30):
        diary, dead = Diary(), Diary()
        troupe = troupe_class(worker=Pod(doer(diary), expose=True), last=Pod(doer(diary), expose=True)).new(
            kubelet=PATIENT
        )
        troupe.system.dead_letters.subscribe(lambda letter, dead=dead: dead.write(letter.message))  # type: ignore[misc]
        sent = [0, 0]

        def send(which: int, handle: Any, sent: list[int] = sent) -> None:
            try:
                while True:
                    handle.send((which, sent[which]))
                    sent[which] += 1
            except PodGone:
                pass

        call = InThread(troupe.play)
        handles = [troupe.exposed().worker.clone(), troupe.exposed().last.clone()]
        senders = [InThread(partial(send, n, handles[n])) for n in range(2)]
        diary.wait_for((0, 0), (1, 0))
        troupe.exposed().worker.send(finish)
        troupe.exposed().last.send(finish)
        assert [sender.join() for sender in senders] == [None, None]
        assert call.join() is None
        assert_over(troupe)
        told = [one for one in diary.entries + dead.entries if isinstance(one, tuple)]
        assert len(told) == len(set(told)) == sum(sent)


@pytest.mark.anyio
async def test_an_asyncio_program_may_run_a_troupe_beside_its_own_work() -> None:  # K9
    diary = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), expose=True), window=Pod(doer(diary), thread=ThreadModel.MAIN, expose=True)
    ).new(kubelet=PATIENT)
    async with troupe:
        for name in troupe.exposed():
            await getattr(troupe.exposed(), name).asend(name)
        await troupe.system.settle()
        with pytest.raises(WaitsForItself, match="async with"):
            troupe.play()
    assert sorted(diary.entries) == ["window", "worker"]
    assert_over(troupe)


def ways_to_run(troupe: Troupe[Any]) -> dict[str, Callable[[], object]]:
    async def in_a_coroutine() -> None:
        async with troupe:
            raise AssertionError("it was entered")

    return {
        "play": troupe.play,
        "with": lambda: troupe.__enter__(),
        "async with": lambda: asyncio.run(in_a_coroutine()),
    }


@pytest.mark.parametrize("way", ["play", "with", "async with"])
def test_a_troupe_that_plays_cannot_be_run_again_and_goes_on(way: str) -> None:  # K9
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True, buffers=Buffers(data=2))).new()
    with playing(troupe) as call:
        worker = troupe.exposed().worker
        worker.send("begun")
        diary.wait_for("begun")
        with pytest.raises(WaitsForItself, match="the troupe 'Studio' is running already"):
            ways_to_run(troupe)[way]()
        for number in range(20):  # more than the ring holds: a handle waits for room while its troupe plays
            worker.send(number)
        diary.wait_for(19)
        troupe.stop(ShutdownMode.DRAIN_ALL)
        assert call.join() is None
    assert diary.entries == ["begun", *range(20)]


@pytest.mark.parametrize("way", ["play", "with", "async with"])
@pytest.mark.parametrize("has_played", [True, False])
def test_a_troupe_that_is_over_cannot_be_run_again(way: str, has_played: bool) -> None:  # K9
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True)).new()
    if has_played:
        with playing(troupe) as call:
            troupe.exposed().worker.send("begun")
            diary.wait_for("begun")
            troupe.stop()
            assert call.join() is None
    else:
        troupe.stop()
    with pytest.raises(SystemStopped, match=r"the troupe 'Studio' .* has stopped: make another, with Studio.new\(\)"):
        ways_to_run(troupe)[way]()
    with pytest.raises(PodGone):
        troupe.exposed().worker.send(1)
    assert_ledger_balanced(troupe.system)


@pytest.mark.parametrize("thread", ["Studio", "Studio pod one", "Studio pod two"])
@pytest.mark.parametrize("way", ["play", "play with MAIN", "with", "async with", "async with MAIN"])
def test_a_troupe_that_could_not_be_started_can_be_started_again(
    way: str, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # K9 J4
    diary = Diary()
    pods = {"one": Pod(doer(diary), expose=True), "two": Pod(doer(diary), expose=True)}
    if way.endswith("MAIN"):
        pods["main"] = Pod(doer(diary), thread=ThreadModel.MAIN)
    troupe = troupe_class(**pods).new()
    start = threading.Thread.start

    def cannot(self: threading.Thread) -> None:
        if self.name == thread:
            raise RuntimeError("can't start new thread")
        start(self)

    async def in_a_coroutine() -> None:
        async with troupe:
            await asyncio.to_thread(diary.wait_for, 1, 2)

    def in_a_block() -> None:
        with troupe:
            diary.wait_for(1, 2)

    def end(actor: Any) -> None:
        troupe.stop(ShutdownMode.DRAIN_ALL)

    def run() -> None:
        if way.startswith("play"):
            troupe.exposed().two.clone().send(end)
            troupe.play()
        elif way == "with":
            in_a_block()
        else:
            asyncio.run(in_a_coroutine())

    troupe.exposed().one.send(1)
    troupe.exposed().two.send(2)
    if not (thread == "Studio" and way.startswith("async")):  # that has no thread for the kubelet
        monkeypatch.setattr(threading.Thread, "start", cannot)
        with pytest.raises(NoThread):
            run()
        monkeypatch.undo()
    run()
    assert sorted(diary.entries) == [1, 2]
    assert_over(troupe)


LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc")


def allowed(thread: threading.Thread) -> str:
    """The processors that a thread may run on, as Linux has them."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))


def thread_named(name: str) -> threading.Thread:
    return next(one for one in threading.enumerate() if one.name == name)


def test_no_ring_is_made_after_play_not_even_for_a_restart() -> None:  # K10
    diary = Diary()
    pods = {f"pod_{number}": Pod(doer(diary), expose=True) for number in range(3)}
    troupe = troupe_class(**pods, beside=Pod(doer(diary), thread=ThreadModel.COOPERATIVE, expose=True)).new()
    made = rings_made()
    with troupe:
        phases, handle = Phases(troupe), troupe.exposed().pod_0
        handle.send(lambda actor: actor.peers.pod_1.send("from within"))
        for message in (1, fail_with(ValueError("boom")), 2):
            handle.send(message)
        handle.send("control", lane=Lane.CONTROL)
        diary.wait_for(1, 2, "control", "from within")
        phases.wait("pod_0", PodPhase.RUNNING, restarts=1)
        assert rings_made() == made
        handle.clone()
        assert rings_made() == made + len(Lane)  # that is what a clone is


@LINUX
def test_threads_are_kept_on_their_cores() -> None:  # K8
    cores = sorted(os.sched_getaffinity(0))
    first, last = cores[0], cores[-1]
    diary = Diary()
    made = troupe_class(fixed=Pod(doer(diary), core=last, expose=True), free=Pod(doer(diary), expose=True))
    with made.new(kubelet=KubeletConfig(core=first)) as troupe:
        troupe.exposed().fixed.send(1)
        troupe.exposed().free.send(2)
        diary.wait_for(1, 2)
        troupe.system.settle_sync()  # until the kubelet has started too
        assert allowed(thread_named("Studio")) == str(first)
        assert allowed(thread_named("Studio pod fixed")) == str(last)
        assert allowed(thread_named("Studio pod free")) == allowed(threading.main_thread())
    assert sorted(os.sched_getaffinity(0)) == cores


def test_a_core_that_is_not_there_is_said_in_the_log_and_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:  # K8
    diary = Diary()
    with troupe_class(one=Pod(doer(diary), core=4095, expose=True)).new(kubelet=KubeletConfig(core=4094)) as troupe:
        troupe.exposed().one.send("here")
        diary.wait_for("here")
        troupe.system.settle_sync()
    told = [record.getMessage() for record in caplog.records]
    assert any("pod one" in one and "4095" in one for one in told)
    assert any("kubelet" in one and "4094" in one for one in told)


def twenty(diary: Diary) -> Troupe[Any]:
    pods = {f"pod_{number}": Pod(doer(diary), thread=ThreadModel.COOPERATIVE, expose=True) for number in range(20)}
    return troupe_class(**pods).new(kubelet=KubeletConfig(heartbeat=0.1))


def test_a_kubelet_with_nothing_to_do_only_shows_that_it_is_well() -> None:  # K7
    diary = Diary()
    with twenty(diary) as troupe:
        for number in range(20):
            getattr(troupe.exposed(), f"pod_{number}").send(number)
        diary.wait_for_count(20)
        troupe.system.settle_sync()
        loop, heart = troupe.system._loop, troupe._parts.heart
        ticks, beats = loop.ticks, heart.beats
        until = time.monotonic() + PATIENCE
        while heart.beats < beats + 4 and time.monotonic() < until:
            threading.Event().wait(0.01)
        assert heart.beats >= beats + 4
        assert loop.ticks - ticks <= 3  # settling may take one more look


@pytest.mark.slow
@LINUX
def test_an_idle_kubelet_with_20_pods_takes_less_than_a_hundredth_of_a_processor() -> None:  # K7
    with twenty(Diary()) as troupe:
        troupe.system.settle_sync()
        clock = time.pthread_getcpuclockid(thread_named("Studio").ident or 0)
        before, seconds = time.clock_gettime(clock), 5.0
        threading.Event().wait(seconds)
        assert (time.clock_gettime(clock) - before) / seconds < 0.01


OWN_OR_SHARED = (ThreadModel.DEDICATED, ThreadModel.COOPERATIVE)


def broken() -> Actor[Any, None]:
    raise ValueError("no such device")


@pytest.mark.parametrize("thread", OWN_OR_SHARED)
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


@pytest.mark.parametrize("thread", OWN_OR_SHARED)
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


@pytest.mark.parametrize("thread", OWN_OR_SHARED)
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


@pytest.mark.parametrize("thread", OWN_OR_SHARED)
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


@pytest.mark.parametrize("thread", OWN_OR_SHARED)
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
