"""A kubelet whose thread is held up is seen by others, who need not ask it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, props
from greenroom.errors import ConnectTimeout
from greenroom.pods import Heartbeat, KubeletConfig, Pod, PodPhase, ThreadModel
from tests.pods.troupes import PATIENCE, Diary, Hold, InThread, Phases, doer, fail_with, playing, troupe_class

COOPERATIVE = ThreadModel.COOPERATIVE


def wait_until(condition: Callable[[], Any]) -> Any:
    """Look until it holds; what it says then."""
    tick = threading.Event()
    for _ in range(int(PATIENCE * 1000)):
        found = condition()
        if found:
            return found
        tick.wait(0.001)
    raise AssertionError("it never came")


def test_a_heartbeat_that_is_older_than_its_interval_is_late() -> None:  # K14
    assert not Heartbeat(0.5, 1.0).is_late
    assert not Heartbeat(1.0, 1.0).is_late
    assert Heartbeat(1.5, 1.0, "/worker/worker").is_late


def test_a_kubelet_that_does_not_run_has_no_heartbeat() -> None:  # K14
    troupe = troupe_class(worker=Pod(doer(Diary()))).new()
    assert troupe.heartbeat is None
    with playing(troupe):
        assert wait_until(lambda: troupe.heartbeat).interval == KubeletConfig().heartbeat
    assert troupe.heartbeat is None


def test_a_kubelet_that_is_held_up_is_seen_and_so_is_who_holds_it() -> None:  # K14
    hold = Hold()
    troupe = troupe_class(
        greedy=Pod(doer(Diary()), thread=COOPERATIVE, expose=True), own=Pod(doer(Diary()), expose=True)
    ).new(kubelet=KubeletConfig(heartbeat=0.02))
    with playing(troupe):
        troupe.exposed().greedy.send(hold)
        hold.wait()
        late = wait_until(lambda: (beat := troupe.heartbeat) and beat.is_late and beat)
        assert late.age > late.interval == 0.02
        assert late.busy_with == "/greedy/greedy"
        hold.release()
        wait_until(lambda: (beat := troupe.heartbeat) and not beat.is_late)


def test_a_pod_that_holds_its_own_thread_does_not_hold_up_the_kubelet() -> None:  # K14, K7
    hold = Hold()
    diary = Diary()
    troupe = troupe_class(
        held=Pod(doer(Diary()), expose=True),
        other=Pod(doer(diary), expose=True),
        helper=Pod(doer(diary), thread=COOPERATIVE, expose=True),
    ).new(kubelet=KubeletConfig(heartbeat=30.0))
    phases = Phases(troupe)
    with playing(troupe):
        troupe.exposed().held.send(hold)
        hold.wait()
        for name in ("other", "helper"):
            getattr(troupe.exposed(), name).send(fail_with(ValueError("bad")))
            phases.wait(name, PodPhase.RUNNING, restarts=1)
        hold.release()


def test_who_waits_in_vain_for_a_held_kubelet_is_told_of_it() -> None:  # K14
    hold = Hold()
    diary = Diary()
    troupe = troupe_class(
        greedy=Pod(doer(diary), thread=COOPERATIVE, expose=True), worker=Pod(doer(diary), expose=True)
    ).new(kubelet=KubeletConfig(heartbeat=0.02, max_restarts=None))
    phases = Phases(troupe)
    with playing(troupe):
        troupe.exposed().greedy.send(hold)
        hold.wait()
        wait_until(lambda: (beat := troupe.heartbeat) and beat.is_late)
        worker = troupe.exposed().worker
        worker.send(fail_with(ValueError("bad")))
        phases.wait("worker", PodPhase.FAILED)
        # Its restart needs the kubelet, whose thread is held.
        with pytest.raises(ConnectTimeout, match="/greedy/greedy holds its thread") as caught:
            worker.send("late", timeout=0.05)
        assert caught.value.message == "late"
        hold.release()
        worker.send("in time", timeout=PATIENCE)
        diary.wait_for("in time")


class Stuck(Actor[Any, None]):
    """Holds its thread in `pre_start` until it is released."""

    def __init__(self, hold: Hold) -> None:
        self.hold = hold

    def pre_start(self) -> None:
        self.hold(self)

    def receive(self, message: Any) -> None: ...


def test_a_pod_that_does_not_get_through_its_start_keeps_nobody_but_those_who_send_to_it() -> None:  # K5, K14
    hold = Hold()
    diary = Diary()
    troupe = troupe_class(stuck=Pod(props(Stuck, hold), expose=True), other=Pod(doer(diary), expose=True)).new()
    with playing(troupe):
        hold.wait()
        assert troupe.status["stuck"].phase is PodPhase.PENDING
        troupe.exposed().other.send("served")
        diary.wait_for("served")
        sends = InThread(lambda: troupe.exposed().stuck.send("waits in its ring"))
        assert sends.join() is None
        assert troupe.exposed().stuck.waiting == 1
        hold.release()
        wait_until(lambda: troupe.exposed().stuck.waiting == 0)
