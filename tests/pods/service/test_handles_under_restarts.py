"""Threads that send while the pod is killed under them: what was reported as sent is not lost, and stays in order."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import pytest

from greenroom import Backoff, Lane
from greenroom.errors import PodGone
from greenroom.pods import Buffers, KubeletConfig, Pod, PodPhase, ServiceHandle, ThreadModel
from tests.pods.test_error_table import THREADS
from tests.pods.troupes import (
    PATIENCE,
    Diary,
    InThread,
    Phases,
    doer,
    fail_with,
    playing,
    send_until_gone,
    troupe_class,
)

SENDERS = 8


def assert_in_order(entries: list[tuple[int, int]]) -> None:
    """The messages of each sender stand in the order in which it has sent them, each once."""
    by_sender: dict[int, list[int]] = {}
    for sender, number in entries:
        by_sender.setdefault(sender, []).append(number)
    for numbers in by_sender.values():
        assert all(before < after for before, after in pairwise(numbers))


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("size", [2, 64])
def test_no_message_that_was_reported_as_sent_is_lost_when_its_pod_is_killed(
    thread: ThreadModel, size: int
) -> None:  # case 61, K4
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True, buffers=Buffers(data=size))).new(
        kubelet=KubeletConfig(max_restarts=None, connect_timeout=PATIENCE)
    )
    phases = Phases(troupe)
    messages, kills = 200, 15
    with playing(troupe):
        handles = [troupe.exposed().worker.clone() for _ in range(SENDERS)]

        def send(sender: int) -> None:
            for number in range(messages):
                handles[sender].send((sender, number))

        calls = [InThread(lambda sender=sender: send(sender)) for sender in range(SENDERS)]  # type: ignore[misc]
        killer = troupe.exposed().worker
        for number in range(kills):
            killer.send(fail_with(ValueError(number)), lane=Lane.CONTROL)
            phases.wait("worker", PodPhase.RUNNING, restarts=number + 1)
        assert [call.join() for call in calls] == [None] * SENDERS
        entries = diary.wait_for_count(SENDERS * messages)
    assert_in_order(entries)
    assert sorted(entries) == [(sender, number) for sender in range(SENDERS) for number in range(messages)]
    ledger = troupe.system.ledger()
    assert (ledger.handled, ledger.failed, ledger.dead_lettered) == (SENDERS * messages, kills, 0)


@pytest.mark.parametrize("thread", THREADS)
def test_senders_wait_out_a_backoff_and_lose_nothing(thread: ThreadModel) -> None:  # case 61, K5
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True, buffers=Buffers(data=4))).new(
        kubelet=KubeletConfig(max_restarts=None, connect_timeout=PATIENCE, backoff=Backoff(min=0.01, max=0.01))
    )
    phases = Phases(troupe)
    with playing(troupe):
        handles = [troupe.exposed().worker.clone() for _ in range(SENDERS)]

        def send(sender: int) -> None:
            for number in range(50):
                handles[sender].send((sender, number))

        killer = troupe.exposed().worker
        killer.send(fail_with(ValueError(0)))
        calls = [InThread(lambda sender=sender: send(sender)) for sender in range(SENDERS)]  # type: ignore[misc]
        for number in range(1, 6):
            killer.send(fail_with(ValueError(number)), lane=Lane.CONTROL)
            phases.wait("worker", PodPhase.RUNNING, restarts=number + 1)
        assert [call.join() for call in calls] == [None] * SENDERS
        entries = diary.wait_for_count(SENDERS * 50)
    assert_in_order(entries)
    assert len(set(entries)) == len(entries) == SENDERS * 50


@pytest.mark.parametrize("thread", THREADS)
def test_messages_are_not_lost_when_it_is_the_pods_supervisor_that_is_killed(thread: ThreadModel) -> None:  # case 61
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True)).new(
        kubelet=KubeletConfig(max_restarts=None, connect_timeout=PATIENCE)
    )
    phases = Phases(troupe)
    with troupe:
        handles = [troupe.exposed().worker.clone() for _ in range(SENDERS)]

        def send(sender: int) -> None:
            for number in range(100):
                handles[sender].send((sender, number))

        phases.wait("worker", PodPhase.RUNNING)
        calls = [InThread(lambda sender=sender: send(sender)) for sender in range(SENDERS)]  # type: ignore[misc]
        for number in range(5):
            supervisor = troupe.system.actor("/worker")
            assert supervisor is not None
            supervisor.kill()
            phases.wait("worker", PodPhase.RUNNING, restarts=number + 1)
        assert [call.join() for call in calls] == [None] * SENDERS
        troupe.exposed().worker.send((SENDERS, 0))
        diary.wait_for((SENDERS, 0))
    entries: list[Any] = diary.entries
    assert_in_order(entries)
    # An order to kill acts at once: what stands in the mailbox then is a dead letter, what stands in rings is not.
    ledger = troupe.system.ledger()
    assert ledger.balanced
    assert ledger.sent == SENDERS * 100 + 1 == ledger.handled + ledger.dead_lettered


@pytest.mark.parametrize("thread", THREADS)
def test_clones_may_come_and_go_while_the_pod_is_killed(thread: ThreadModel) -> None:  # case 61, K4
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True)).new(
        kubelet=KubeletConfig(max_restarts=None, connect_timeout=PATIENCE)
    )
    phases = Phases(troupe)
    with playing(troupe):
        sources = [troupe.exposed().worker.clone() for _ in range(4)]

        def send(sender: int) -> None:
            for number in range(100):
                clone: ServiceHandle = sources[sender].clone()
                clone.send((sender, number))

        calls = [InThread(lambda sender=sender: send(sender)) for sender in range(4)]  # type: ignore[misc]
        killer = troupe.exposed().worker
        for number in range(15):
            killer.send(fail_with(ValueError(number)), lane=Lane.CONTROL)
            phases.wait("worker", PodPhase.RUNNING, restarts=number + 1)
        assert [call.join() for call in calls] == [None] * 4
        entries = diary.wait_for_count(400)
    assert sorted(entries) == [(sender, number) for sender in range(4) for number in range(100)]


@pytest.mark.parametrize("thread", THREADS)
def test_a_pod_that_is_given_up_under_its_senders_lets_go_of_them_all(thread: ThreadModel) -> None:  # case 61, K5
    diary = Diary()
    dead = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), thread=thread, expose=True, buffers=Buffers(data=4)), other=Pod(doer(diary))
    ).new(kubelet=KubeletConfig(max_restarts=3, within=3600.0, connect_timeout=3600.0))
    troupe.system.dead_letters.subscribe(lambda letter: dead.write(letter.message))
    handles = [troupe.exposed().worker.clone() for _ in range(SENDERS)]
    begun = threading.Barrier(SENDERS + 1)
    sent: list[list[tuple[int, int]]] = [[] for _ in range(SENDERS)]

    def send(sender: int) -> None:
        handles[sender].send((sender, -1))
        begun.wait(PATIENCE)
        for number in range(1_000_000):
            handles[sender].send((sender, number))
            sent[sender].append((sender, number))

    call = InThread(troupe.play)
    calls = [InThread(lambda sender=sender: send(sender)) for sender in range(SENDERS)]  # type: ignore[misc]
    begun.wait(PATIENCE)
    error = ValueError("bad")
    killer = troupe.exposed().worker
    send_until_gone(killer, fail_with(error), Lane.CONTROL)
    for one in calls:
        gone = one.join()
        assert isinstance(gone, PodGone)
        assert gone.__cause__ is error
    failed = call.join()
    assert failed is not None
    assert failed.__cause__ is error
    told = [message for one in sent for message in one] + [(sender, -1) for sender in range(SENDERS)]
    handled = diary.entries
    assert_in_order(handled)
    lost = set(told) - set(handled) - set(dead.entries)
    assert lost == set()
    assert len(handled) + sum(isinstance(one, tuple) for one in dead.entries) == len(told)
    ledger = troupe.system.ledger()
    assert ledger.balanced
    assert ledger.queued == 0
