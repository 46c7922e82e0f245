"""What a troupe costs while it plays: no ring is made, nothing turns when nobody sends, threads stay where they are."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from greenroom import Lane
from greenroom._core.connections.spscring import rings_made
from greenroom.pods import KubeletConfig, Pod, PodPhase, ThreadModel, Troupe
from tests.pods.troupes import PATIENCE, Diary, Phases, doer, fail_with, troupe_class

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
