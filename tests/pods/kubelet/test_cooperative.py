"""Cooperative pods share the kubelet's thread: each has its turn, and a send there never blocks it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from greenroom import Actor, Lane, props
from greenroom.errors import PodGone, RingFull
from greenroom.pods import Buffers, Bursts, KubeletConfig, Pod, PodPhase, RestartPolicy, ThreadModel
from tests.pods.troupes import PATIENCE, Diary, Hold, Phases, doer, fail_with, playing, troupe_class

COOPERATIVE = ThreadModel.COOPERATIVE
PATIENT = KubeletConfig(max_restarts=None, connect_timeout=PATIENCE)


class Greedy(Actor[Any, None]):
    """Has always more to do."""

    def __init__(self, diary: Diary) -> None:
        self.diary = diary
        self.turns = 0

    def receive(self, message: Any) -> None:
        self.turns += 1
        if self.turns == 1:
            self.diary.write("greedy")
        self.ctx.self.tell(message)


def test_twenty_cooperative_pods_all_go_on_though_one_is_greedy() -> None:  # case 65, K7
    diary = Diary()
    pods = {f"pod_{number}": Pod(doer(diary), thread=COOPERATIVE, expose=True) for number in range(19)}
    troupe = troupe_class(greedy=Pod(props(Greedy, diary), thread=COOPERATIVE, expose=True), **pods).new(
        kubelet=PATIENT
    )
    with playing(troupe):
        troupe.exposed().greedy.send("go on")
        diary.wait_for("greedy")
        for turn in range(20):
            for name in pods:
                getattr(troupe.exposed(), name).send((name, turn))
            diary.wait_for(*((name, turn) for name in pods))


def test_a_cooperative_pod_goes_on_though_another_is_flooded() -> None:  # case 65, K7
    diary = Diary()
    stop = threading.Event()
    troupe = troupe_class(
        flooded=Pod(doer(Diary()), thread=COOPERATIVE, expose=True),
        calm=Pod(doer(diary), thread=COOPERATIVE, expose=True),
    ).new(kubelet=PATIENT)

    def flood() -> None:
        while not stop.is_set():
            troupe.exposed().flooded.send("more")

    with playing(troupe):
        flooder = threading.Thread(target=flood)
        flooder.start()
        try:
            for number in range(50):
                troupe.exposed().calm.send(number)
                diary.wait_for(number)
        finally:
            stop.set()
            flooder.join(PATIENCE)


def test_all_cooperative_pods_run_on_one_thread_which_is_no_others() -> None:  # K7
    diary = Diary()

    def where(actor: Any) -> None:
        diary.write((actor.ctx.name, threading.get_ident()))

    troupe = troupe_class(
        one=Pod(doer(diary), thread=COOPERATIVE, expose=True),
        two=Pod(left=doer(diary), right=doer(diary), thread=COOPERATIVE, expose=True),
        own=Pod(doer(diary), expose=True),
    ).new()
    for name in troupe.exposed():
        getattr(troupe.exposed(), name).send(where)
    with playing(troupe) as call:
        diary.wait_for_count(4)
    found = dict(diary.entries)
    assert found["one"] == found["left"] == found["right"]
    assert len({found["one"], found["own"], call.thread.ident, threading.get_ident()}) == 4


def sends(count: int, lanes: tuple[Lane, ...] = (Lane.DATA,)) -> Any:
    """Told to a `Doer`: send so many messages to its peer, and write down how many were refused."""

    def send(actor: Any) -> None:
        refused = 0
        for number in range(count):
            try:
                actor.peers.worker.send((lanes[number % len(lanes)], number), lane=lanes[number % len(lanes)])
            except RingFull as full:
                refused += full.message == (lanes[number % len(lanes)], number)
        actor.diary.write(("refused", refused))

    return send


@pytest.mark.parametrize("thread", [ThreadModel.DEDICATED, COOPERATIVE])
@pytest.mark.parametrize("lanes", [(Lane.DATA,), tuple(Lane)], ids=["data", "all lanes"])
def test_what_the_kubelets_thread_sends_to_a_full_pod_is_put_down_and_sent_later_in_order(
    lanes: tuple[Lane, ...], thread: ThreadModel
) -> None:  # K7
    diary, told = Diary(), Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), thread=thread, buffers=Buffers(16, 16, 16, 16), bursts=Bursts(1, 1, 1, 1)),
        sender=Pod(doer(told), thread=COOPERATIVE, expose=True),
    ).new(kubelet=PATIENT)
    with playing(troupe):
        troupe.exposed().sender.send(sends(32, lanes))
        [(_, refused)] = told.wait_for_count(1)
        assert refused == 0
        diary.wait_for_count(32)
    for lane in lanes:
        numbers = [number for one, number in diary.entries if one is lane]
        assert numbers == sorted(numbers)
    assert len(diary.entries) == 32


def test_control_from_the_kubelets_thread_does_not_wait_behind_data_that_was_put_down() -> None:  # K7, K12
    diary, told = Diary(), Diary()
    hold = Hold()

    def send(actor: Any) -> None:
        worker = actor.peers.worker
        for number in range(64):
            worker.send(number)
        told.write(worker.try_send("tried", lane=Lane.CONTROL))
        worker.send("cancel", lane=Lane.CONTROL)
        told.write(worker.try_send("no room"))
        told.write("sent")

    troupe = troupe_class(
        worker=Pod(doer(diary), expose=True, buffers=Buffers(data=32), bursts=Bursts(data=4)),
        sender=Pod(doer(told), thread=COOPERATIVE, expose=True),
    ).new(kubelet=PATIENT)
    with playing(troupe):
        troupe.exposed().worker.send(hold)
        hold.wait()
        troupe.exposed().sender.send(send)
        told.wait_for("sent")
        hold.release()
        diary.wait_for_count(66)
    assert told.entries == [True, False, "sent"]
    assert diary.entries.index("cancel") <= 2 * 4
    assert [one for one in diary.entries if isinstance(one, int)] == list(range(64))


@pytest.mark.parametrize("size", [1, 4])
def test_what_is_put_down_while_a_pod_is_away_is_bounded_and_flushed_after_its_restart(size: int) -> None:  # K7, K11
    diary, told = Diary(), Diary()
    hold = Hold()
    births = iter([lambda: None, lambda: hold(None)])  # type: ignore[arg-type]
    troupe = troupe_class(
        worker=Pod(doer(diary, lambda: next(births)()), expose=True, buffers=Buffers(data=size)),
        sender=Pod(doer(told), thread=COOPERATIVE, expose=True),
    ).new(kubelet=PATIENT)
    with playing(troupe):
        troupe.exposed().worker.send(fail_with(ValueError("bad")))
        hold.wait()
        troupe.exposed().sender.send(sends(10))
        [(_, refused)] = told.wait_for_count(1)
        assert refused == 10 - size
        hold.release()
        diary.wait_for_count(size)
        troupe.exposed().sender.send(lambda actor: actor.peers.worker.send("after"))
        diary.wait_for("after")
    assert diary.entries == [*((Lane.DATA, number) for number in range(size)), "after"]


def test_what_is_put_down_stays_in_order_over_many_restarts() -> None:  # K7, K11
    diary = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), expose=True, buffers=Buffers(data=8), bursts=Bursts(data=2)),
        sender=Pod(doer(Diary()), thread=COOPERATIVE, expose=True),
    ).new(kubelet=PATIENT)
    phases = Phases(troupe)
    messages = 400

    def send(actor: Any, number: int = 0) -> None:
        while number < messages:
            try:
                actor.peers.worker.send(number)
            except RingFull:
                actor.ctx.self.tell(lambda actor, number=number: send(actor, number))
                return
            number += 1

    with playing(troupe):
        troupe.exposed().sender.send(send)
        for number in range(20):
            troupe.exposed().worker.send(fail_with(ValueError(number)), lane=Lane.CONTROL)
            phases.wait("worker", PodPhase.RUNNING, restarts=number + 1)
        diary.wait_for_count(messages)
    assert diary.entries == list(range(messages))


def test_what_was_put_down_for_a_pod_that_is_given_up_is_a_dead_letter() -> None:  # K7, K5
    diary, told, dead = Diary(), Diary(), Diary()
    hold = Hold()

    def fail() -> None:
        hold(None)  # type: ignore[arg-type]
        raise ValueError("again")

    births = iter([lambda: None, fail])
    troupe = troupe_class(
        worker=Pod(doer(diary, lambda: next(births)()), expose=True),
        sender=Pod(doer(told), thread=COOPERATIVE, expose=True),
    ).new(kubelet=KubeletConfig(max_restarts=1, within=3600.0, connect_timeout=PATIENCE))
    troupe.system.dead_letters.subscribe(lambda letter: dead.write(letter.message))
    from tests.pods.troupes import InThread, assert_over

    call = InThread(troupe.play)
    troupe.exposed().worker.send(fail_with(ValueError("bad")))
    hold.wait()
    troupe.exposed().sender.send(sends(5))
    told.wait_for_count(1)
    hold.release()
    assert call.join() is not None
    assert dead.entries == [(Lane.DATA, number) for number in range(5)]
    assert_over(troupe)


def test_an_asend_after_something_was_put_down_waits_for_its_turn_and_goes_on() -> None:  # K7, K4
    diary, told = Diary(), Diary()
    hold = Hold()

    async def send(actor: Any) -> None:
        number = 0
        while actor.peers.worker.try_send(number):
            number += 1
        actor.peers.worker.send(number)  # it is put down
        told.write("put down")
        await actor.peers.worker.asend(number + 1)
        actor.peers.worker.send(number + 2)
        told.write(number + 3)

    troupe = troupe_class(
        worker=Pod(doer(diary), expose=True, buffers=Buffers(data=4), bursts=Bursts(data=1)),
        sender=Pod(doer(told), thread=COOPERATIVE, expose=True),
    ).new(kubelet=PATIENT)
    with playing(troupe):
        troupe.exposed().worker.send(hold)
        hold.wait()
        troupe.exposed().sender.send(send)
        told.wait_for("put down")
        hold.release()
        count = told.wait_for_count(2)[1]
        diary.wait_for_count(count)
    assert diary.entries == list(range(count))


def test_a_cooperative_pod_is_told_that_its_peer_is_gone() -> None:  # K7, K5
    diary, told = Diary(), Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), restart=RestartPolicy.NEVER, expose=True),
        sender=Pod(doer(told), thread=COOPERATIVE, expose=True),
    ).new(kubelet=PATIENT)
    phases = Phases(troupe)

    def send(actor: Any) -> None:
        try:
            actor.peers.worker.send("more")
        except PodGone as gone:
            told.write(gone)
        else:
            actor.ctx.self.tell(send)

    error = ValueError("bad")
    with playing(troupe):
        troupe.exposed().worker.send(fail_with(error))
        phases.wait("worker", PodPhase.FAILED)
        troupe.exposed().sender.send(send)
        [gone] = told.wait_for_count(1)
    assert gone.__cause__ is error
    assert gone.message == "more"
