"""Pods in processes of their own: reached as others are, killed for real, and restarted without losing a message."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from greenroom import Backoff
from greenroom.errors import NotSendable
from greenroom.pods import KubeletConfig, Pod, PodPhase, RestartPolicy, ThreadModel, Troupe
from greenroom.testing import assert_ledger_balanced
from tests.pods.troupes import Diary, Phases, doer, fail_with, finish, send_until_gone, troupe_class
from tests.pods.workers import Careless, Forwarder, Reporter, Settings, Unsendable, Worker, fail, where_it_may_run

ENDLESS = KubeletConfig(max_restarts=None, connect_timeout=3600.0)


def crunching(diary: Diary, **options: Any) -> type[Troupe[Any]]:
    """A troupe with a pod in a process, which sends to one on the kubelet's thread."""
    return troupe_class(
        worker=Pod(worker=Worker, settings=Settings, thread=ThreadModel.PROCESS, expose=("worker",), **options),
        sink=Pod(doer(diary), thread=ThreadModel.COOPERATIVE),
    )


def pid_of(troupe: Troupe[Any], pod: str) -> int:
    """The process of a pod; it must have one by now."""
    pools = troupe.system.dispatchers._pools
    pids = next(pool.pids for (name, _), pool in pools.items() if name == f"pod {pod}")  # type: ignore[union-attr]
    pid: int = pids[-1]
    return pid


def test_a_pod_in_a_process_is_reached_and_sends_as_others_do() -> None:  # K3 K8 K17
    diary = Diary()
    with crunching(diary).new() as troupe:
        worker = troupe.exposed().worker
        for number in range(5):
            worker.send(number)
        found = diary.wait_for_count(5)
        assert [number for number, _ in found] == [0, 3, 6, 9, 12]
        assert os.getpid() not in {pid for _, pid in found}
    assert_ledger_balanced(troupe.system)


def test_the_process_of_a_pod_is_kept_on_its_core() -> None:  # K8
    diary, core = Diary(), max(os.sched_getaffinity(0))
    with crunching(diary, core=core).new() as troupe:
        troupe.exposed().worker.send(where_it_may_run)
        diary.wait_for([core])


def test_a_process_may_run_anywhere_though_its_kubelet_may_not() -> None:  # K8
    diary, cores = Diary(), sorted(os.sched_getaffinity(0))
    with crunching(diary).new(kubelet=KubeletConfig(core=cores[0])) as troupe:
        troupe.exposed().worker.send(where_it_may_run)
        diary.wait_for(cores)


def test_a_failure_in_a_process_restarts_the_pod_and_what_waits_is_handled() -> None:  # K11
    diary = Diary()
    with crunching(diary).new(kubelet=ENDLESS) as troupe:
        worker = troupe.exposed().worker
        for message in (1, fail, 2):
            worker.send(message)
        assert [number for number, _ in diary.wait_for_count(2)] == [3, 6]
        troupe.system.settle_sync()
        assert troupe.status["worker"].restarts == 1
        assert troupe.system.ledger().failed == 1


def kill_again_and_again(kills: int) -> None:
    """Kill the process of a pod while messages come: each is handled, but those that it was at."""
    diary = Diary()
    made = troupe_class(
        worker=Pod(Forwarder, thread=ThreadModel.PROCESS, expose=True),
        sink=Pod(doer(diary), thread=ThreadModel.COOPERATIVE),
    )
    with made.new(kubelet=ENDLESS) as troupe:
        phases, handle, sent = Phases(troupe), troupe.exposed().worker, 0
        handle.send(sent)
        diary.wait_for_count(1)
        for kill in range(1, kills + 1):
            for _ in range(37 * kill % 300):
                sent += 1
                handle.send(sent)
            os.kill(pid_of(troupe, "worker"), signal.SIGKILL)
            phases.wait("worker", PodPhase.RUNNING, restarts=kill)
        troupe.system.settle_sync()
        actor = troupe.system.actor("/worker/worker")
        ledger = troupe.system.ledger(actor)
        missing = set(range(sent + 1)) - set(diary.entries)
        assert diary.entries == sorted(set(diary.entries)), "once, and in order"
        assert ledger.lost == ledger.dead_lettered == ledger.queued == 0
        assert (ledger.sent, ledger.handled + ledger.failed) == (sent + 1, sent + 1)
        assert len(missing) <= ledger.failed <= kills
        assert_ledger_balanced(troupe.system)


def test_no_message_is_lost_when_the_process_of_a_pod_is_killed() -> None:  # K4 R6
    kill_again_and_again(4)


@pytest.mark.slow
def test_no_message_is_lost_when_the_process_of_a_pod_is_killed_200_times() -> None:  # K4 R6
    kill_again_and_again(200)


def test_a_pod_whose_process_is_killed_and_that_is_not_restarted_is_gone() -> None:  # K13
    diary = Diary()
    with crunching(diary, restart=RestartPolicy.NEVER).new() as troupe:
        phases, worker = Phases(troupe), troupe.exposed().worker
        worker.send(1)
        diary.wait_for_count(1)
        os.kill(pid_of(troupe, "worker"), signal.SIGKILL)
        phases.wait("worker", PodPhase.FAILED)
        gone = send_until_gone(worker, 2)
        assert "SIGKILL" in str(gone.__cause__)


def test_a_pod_in_a_process_is_told_each_time_that_a_peer_is_gone() -> None:  # K5 K13
    diary = Diary()
    made = troupe_class(
        reporter=Pod(Reporter, thread=ThreadModel.PROCESS, expose=True),
        fragile=Pod(doer(Diary()), restart=RestartPolicy.NEVER, expose=True),
        sink=Pod(doer(diary), thread=ThreadModel.COOPERATIVE),
    )
    with made.new() as troupe:
        phases = Phases(troupe)
        troupe.exposed().fragile.send(finish)
        phases.wait("fragile", PodPhase.COMPLETED)
        send_until_gone(troupe.exposed().fragile, "more")
        for number in range(20):
            troupe.exposed().reporter.send(number)
        assert diary.wait_for_count(20) == ["PodGone"] * 20
        troupe.system.settle_sync()
        assert troupe.system.ledger().failed == 0


def test_a_pod_in_a_process_waits_for_a_peer_that_is_restarted_and_no_longer_than_it_says() -> None:  # K5 K11
    diary = Diary()
    made = troupe_class(
        reporter=Pod(Reporter, thread=ThreadModel.PROCESS, expose=True),
        fragile=Pod(doer(Diary()), expose=True),
        sink=Pod(doer(diary), thread=ThreadModel.COOPERATIVE),
    )
    with made.new(kubelet=KubeletConfig(backoff=Backoff(min=3600.0, max=3600.0))) as troupe:
        phases = Phases(troupe)
        troupe.exposed().fragile.send(fail_with(ValueError("boom")))
        phases.wait("fragile", PodPhase.FAILED)
        for number in range(5):
            troupe.exposed().reporter.send(number)
        assert diary.wait_for_count(5) == ["ConnectTimeout"] * 5
        troupe.system.settle_sync()
        assert troupe.system.ledger(troupe.system.actor("/reporter/reporter")).failed == 0


def test_what_cannot_be_sent_to_a_process_is_refused_where_it_is_sent() -> None:  # K3 J9
    diary = Diary()
    with crunching(diary).new() as troupe:
        worker = troupe.exposed().worker
        with pytest.raises(NotSendable) as told:
            worker.send(threading.Lock())
        assert told.value.message is not None
        worker.send(2)
        diary.wait_for_count(1)


def test_what_a_process_cannot_send_is_refused_by_its_own_name() -> None:  # K3 J9
    diary = Diary()
    troupe = troupe_class(
        worker=Pod(Unsendable, thread=ThreadModel.PROCESS, expose=True),
        sink=Pod(doer(diary), thread=ThreadModel.COOPERATIVE),
    )
    with troupe.new() as playing:
        playing.exposed().worker.send("go")
        [told] = diary.wait_for_count(1)
    assert told.startswith("a lock cannot be sent to another process")


def test_mistakes_of_a_sender_in_a_process_are_its_own_and_cut_off_nobody() -> None:  # K3 K4
    diary = Diary()
    troupe = troupe_class(
        worker=Pod(Careless, thread=ThreadModel.PROCESS, expose=True),
        sink=Pod(doer(diary), thread=ThreadModel.COOPERATIVE, expose=True),
    )
    with troupe.new() as playing:
        worker = playing.exposed().worker
        for _ in range(6):
            worker.send("go")
        told = diary.wait_for_count(6)
        playing.exposed().sink.send(finish)
        assert told == [("BadArgument", "ConfigError", "WaitsForItself", "WaitsForItself", False, 0)] * 6


def test_an_actor_that_no_process_could_import_is_refused_when_the_troupe_is_made() -> None:  # K9
    class Local(Forwarder):
        pass

    made = troupe_class(
        worker=Pod(Local, thread=ThreadModel.PROCESS), sink=Pod(doer(Diary()), thread=ThreadModel.COOPERATIVE)
    )
    with pytest.raises(NotSendable, match="Local") as told:
        made.new()
    assert "'worker' of the PROCESS pod 'worker'" in str(told.value.__notes__)
