"""Service handles: order, holders, clones, and what becomes of a message when a pod is full, away or gone."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise
from typing import Any

import pytest

from greenroom import Backoff, Lane, OnRestart
from greenroom.errors import ConnectTimeout, HandleHeld, MailboxFull, PodGone, RingFull
from greenroom.pods import Buffers, Bursts, KubeletConfig, Pod, PodPhase, RestartPolicy, ServiceHandle, ThreadModel
from tests.pods.troupes import (
    FOREVER,
    PATIENCE,
    THREADS,
    Diary,
    Hold,
    InThread,
    Phases,
    assert_over,
    doer,
    fail_with,
    finish,
    playing,
    send_until_gone,
    troupe_class,
)

SMALL = Buffers(data=4, control=4, management=4, log=4)
LANES = list(Lane)


# Order
@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("bursts", [Bursts(1, 1, 1, 1), Bursts(3, 3, 3, 3), Bursts()], ids=["1", "3", "256"])
def test_messages_of_a_handle_arrive_in_order_lane_by_lane(bursts: Bursts, thread: ThreadModel) -> None:  # K4, K12
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True, bursts=bursts)).new()
    with playing(troupe):
        worker = troupe.exposed().worker
        for number in range(500):
            for lane in LANES:
                worker.send((lane, number), lane=lane)
        diary.wait_for_count(500 * len(LANES))
    for lane in LANES:
        assert [number for one, number in diary.entries if one is lane] == list(range(500))


@pytest.mark.parametrize("thread", THREADS)
def test_control_comes_before_what_waits_in_other_lanes(thread: ThreadModel) -> None:  # K12
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True)).new()
    worker = troupe.exposed().worker
    for lane in (Lane.LOG, Lane.DATA, Lane.MANAGEMENT, Lane.CONTROL):
        worker.send(lane, lane=lane)
    with playing(troupe):
        diary.wait_for_count(4)
    assert diary.entries == [Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA, Lane.LOG]


def test_a_flood_of_data_from_one_holder_does_not_keep_the_others_waiting() -> None:  # K12
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True, bursts=Bursts(data=8))).new()
    flood, other = troupe.exposed().worker, troupe.exposed().worker.clone()
    for number in range(2000):
        flood.send(number)
    other.send("other")
    with playing(troupe):
        diary.wait_for_count(2001)
    assert diary.entries.index("other") < 64


@pytest.mark.parametrize("thread", THREADS)
def test_control_is_served_under_a_flood_of_data_and_data_under_one_of_control(thread: ThreadModel) -> None:  # K12
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True, bursts=Bursts(8, 8, 8, 8))).new()
    worker = troupe.exposed().worker
    control = worker.clone()
    stop = threading.Event()
    sent = [0]

    def flood() -> None:
        while not stop.is_set():
            control.send("control", lane=Lane.CONTROL)
            sent[0] += 1

    with playing(troupe):
        call = InThread(flood)
        diary.wait_for("control")
        for number in range(100):
            worker.send(number)
        diary.wait_for(*range(100))
        stop.set()
        assert call.join() is None
        diary.wait_for_count(sent[0] + 100)


# Holders
def test_a_handle_belongs_to_the_first_thread_that_sends_with_it() -> None:  # K4
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True)).new()
    worker = troupe.exposed().worker
    with playing(troupe):
        worker.send("mine")
        ways = [
            lambda: worker.send("theirs"),
            lambda: worker.try_send("theirs"),
            lambda: worker.send("theirs", lane=Lane.CONTROL),
            lambda: asyncio.run(worker.asend("theirs")),
        ]
        for way in ways:
            error = InThread(way).join()
            assert isinstance(error, HandleHeld)
            assert "clone()" in str(error)
        clone = worker.clone()
        assert InThread(lambda: clone.send("clone's")).join() is None
        diary.wait_for("mine", "clone's")
        with pytest.raises(HandleHeld):
            clone.send("mine too")
    assert "theirs" not in diary.entries


def test_a_clone_is_another_connection_to_the_same_actor() -> None:  # K4
    diary = Diary()
    troupe = troupe_class(pod=Pod(left=doer(diary), right=doer(Diary()), expose=("left",), buffers=SMALL)).new()
    left = troupe.exposed().left
    clone = left.clone()
    assert (clone.name, clone.pod) == (left.name, left.pod) == ("left", "pod")
    for number in range(4):
        left.send(number)
        clone.send(number + 10)
    assert (left.waiting, clone.waiting) == (4, 4)
    with playing(troupe):
        diary.wait_for_count(8)
    assert [one for one in diary.entries if one < 10] == [0, 1, 2, 3]
    assert [one for one in diary.entries if one >= 10] == [10, 11, 12, 13]


def test_a_clone_that_is_dropped_with_messages_waiting_loses_none() -> None:  # K4
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True)).new()
    for number in range(100):
        troupe.exposed().worker.clone().send(number)
    with playing(troupe):
        diary.wait_for(*range(100))
        for number in range(100, 200):
            troupe.exposed().worker.clone().send(number)
        diary.wait_for(*range(200))


# Full
def test_before_play_a_full_ring_refuses_at_once() -> None:  # K4, K10
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True, buffers=SMALL)).new(kubelet=FOREVER)
    worker = troupe.exposed().worker
    for lane in LANES:
        for number in range(4):
            worker.send((lane, number), lane=lane)
        with pytest.raises(RingFull, match="does not play yet") as caught:
            worker.send("fifth", lane=lane)
        assert isinstance(caught.value, MailboxFull)
        assert (caught.value.message, caught.value.lane, caught.value.capacity) == ("fifth", lane, 4)
        assert not worker.try_send("fifth", lane=lane)
        with pytest.raises(RingFull, match=r"does not play yet.*Start it first"):
            asyncio.run(worker.asend("fifth", lane=lane))
    with playing(troupe):
        diary.wait_for_count(4 * len(LANES))
    assert len(diary.entries) == 4 * len(LANES)


def test_what_is_sent_before_play_is_handled_first() -> None:  # K10
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True)).new()
    worker = troupe.exposed().worker
    for number in range(1000):
        worker.send(number)
    assert troupe.system.ledger().queued == 1000
    with playing(troupe):
        for number in range(1000, 2000):
            worker.send(number)
        diary.wait_for_count(2000)
    assert diary.entries == list(range(2000))


def test_a_send_to_a_full_pod_waits_for_room() -> None:  # K4
    diary = Diary()
    hold = Hold()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True, buffers=SMALL, bursts=Bursts(1, 1, 1, 1))).new(
        kubelet=FOREVER
    )
    with playing(troupe):
        worker = troupe.exposed().worker.clone()
        troupe.exposed().worker.send(hold)
        hold.wait()

        def send() -> None:
            for number in range(50):
                worker.send(number)

        sends = InThread(send)
        hold.release()
        assert sends.join() is None
        diary.wait_for_count(50)
    assert diary.entries == list(range(50))


def test_a_send_to_a_pod_that_makes_no_room_is_refused_in_time() -> None:  # K4
    diary = Diary()
    hold = Hold()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True, buffers=SMALL)).new(kubelet=FOREVER)
    with playing(troupe):
        worker = troupe.exposed().worker
        worker.send(hold)
        hold.wait()
        sent = 0
        while worker.try_send(sent):
            sent += 1
        with pytest.raises(RingFull) as caught:
            worker.send("late", timeout=0.01)
        assert (caught.value.message, caught.value.ref) == ("late", "worker")
        hold.release()
        diary.wait_for_count(sent)
    assert diary.entries == list(range(sent))
    assert assert_over(troupe).rejected == 1  # the one that was told so by an exception


@pytest.mark.anyio
async def test_asends_of_one_holder_all_go_on_when_there_is_room() -> None:  # K4
    diary = Diary()
    hold = Hold()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True, buffers=Buffers(data=1), bursts=Bursts(data=1))).new(
        kubelet=KubeletConfig(connect_timeout=PATIENCE)
    )
    worker = troupe.exposed().worker
    async with troupe:
        await worker.asend(hold)
        await asyncio.get_running_loop().run_in_executor(None, hold.wait)
        sends = [asyncio.create_task(worker.asend(number)) for number in range(5)]
        await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)  # of the others, all wait
        hold.release()
        assert await asyncio.gather(*sends, return_exceptions=True) == [None] * 5
    assert sorted(diary.entries) == list(range(5))
    assert_over(troupe)


@pytest.mark.anyio
async def test_an_asend_that_is_cancelled_leaves_nothing_behind() -> None:  # K4
    diary = Diary()
    hold = Hold()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True, buffers=Buffers(data=1), bursts=Bursts(data=1))).new(
        kubelet=FOREVER
    )
    worker = troupe.exposed().worker
    async with troupe:
        await worker.asend(hold)
        await asyncio.get_running_loop().run_in_executor(None, hold.wait)
        sent = 0
        while worker.try_send(sent):
            sent += 1
        task = asyncio.create_task(worker.asend("cancelled"))
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        hold.release()
        await worker.asend("last")
        await troupe.system.settle()
        assert diary.entries == [*range(sent), "last"]
    assert_over(troupe)


# Away
@pytest.mark.parametrize("thread", THREADS)
def test_a_pod_that_waits_out_its_backoff_is_not_waited_for_for_ever(thread: ThreadModel) -> None:  # K5, K14
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True)).new(
        kubelet=KubeletConfig(backoff=Backoff(min=3600.0, max=3600.0), connect_timeout=0.02)
    )
    phases = Phases(troupe)
    error = ValueError("bad")
    with playing(troupe):
        worker = troupe.exposed().worker
        worker.send(fail_with(error))
        phases.wait("worker", PodPhase.FAILED)
        with pytest.raises(ConnectTimeout, match="bad") as caught:
            worker.send("late")
        assert caught.value.message == "late"
        assert not worker.try_send("late")
        with pytest.raises(ConnectTimeout):
            asyncio.run(worker.asend("late"))
    assert diary.entries == []
    with pytest.raises(PodGone):
        worker.try_send("late")


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("burst", [1, 256])
@pytest.mark.parametrize("on_restart", OnRestart)
def test_what_waits_over_a_restart_is_kept_or_cleared(
    on_restart: OnRestart, burst: int, thread: ThreadModel
) -> None:  # K11
    diary = Diary()
    dead = Diary()
    hold = Hold()
    troupe = troupe_class(
        worker=Pod(
            doer(diary), thread=thread, expose=True, on_restart=on_restart, bursts=Bursts(burst, burst, burst, burst)
        )
    ).new(kubelet=FOREVER)
    troupe.system.dead_letters.subscribe(lambda letter: dead.write(letter.message))
    phases = Phases(troupe)
    with playing(troupe):
        worker = troupe.exposed().worker
        worker.send(hold)
        hold.wait()
        for number in range(20):
            worker.send(number)
        hold.release(fail_with(ValueError("bad")))
        phases.wait("worker", PodPhase.RUNNING, restarts=1)
        worker.send("after")
        diary.wait_for("after")
    kept = list(range(20)) if on_restart is OnRestart.KEEP else []
    assert diary.entries == [*kept, "after"]
    assert sorted(dead.entries) == [one for one in range(20) if one not in kept]
    assert troupe.system.ledger().failed == 1


# Gone
def test_a_handle_of_a_pod_that_is_gone_refuses_in_every_way_and_gives_the_message_back() -> None:  # K5
    diary = Diary()
    error = ValueError("bad")
    troupe = troupe_class(
        worker=Pod(doer(diary), restart=RestartPolicy.NEVER, expose=True), other=Pod(doer(diary))
    ).new(kubelet=FOREVER)
    phases = Phases(troupe)
    with playing(troupe):
        worker = troupe.exposed().worker
        worker.send(fail_with(error))
        phases.wait("worker", PodPhase.FAILED)
        send_until_gone(worker, "until it is known")
        message = object()
        for lane in LANES:
            for way in (
                lambda lane: worker.send(message, lane=lane),
                lambda lane: worker.try_send(message, lane=lane),
                lambda lane: worker.clone().send(message, lane=lane),
                lambda lane: asyncio.run(worker.clone().asend(message, lane=lane)),
            ):
                with pytest.raises(PodGone) as caught:
                    way(lane)
                assert caught.value.message is message
                assert caught.value.__cause__ is error
                assert caught.value.code == "pod_gone"


def test_a_handle_that_is_used_after_play_refuses_at_once() -> None:  # K4, K5
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True), last=Pod(doer(diary), expose=True)).new(kubelet=FOREVER)
    worker, last = troupe.exposed().worker, troupe.exposed().last
    worker.send("before")
    worker.send(finish)
    last.send(finish)
    assert InThread(troupe.play).join() is None
    before = troupe.system.ledger()
    for way in (worker.send, worker.try_send, worker.clone().send, lambda one: asyncio.run(worker.asend(one))):
        with pytest.raises(PodGone) as caught:
            way("late")
        assert caught.value.message == "late"
    assert worker.is_gone
    assert worker.waiting == 0
    assert troupe.system.ledger() == before
    assert_over(troupe)


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
