"""The kubelet: the phases of pods, the cooperative ones on its thread, and its heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest

from greenroom import Actor, Lane, props
from greenroom.errors import ConnectTimeout, GreenroomError, PodGone, RingFull
from greenroom.pods import (
    Buffers,
    Bursts,
    Heartbeat,
    KubeletConfig,
    Pod,
    PodPhase,
    PodStatus,
    RestartPolicy,
    ThreadModel,
)
from greenroom.pods.kubelet.podrecord import can_follow
from tests.pods.troupes import PATIENCE, Diary, Hold, InThread, Phases, doer, fail_with, finish, playing, troupe_class

PENDING, RUNNING, TERMINATING = PodPhase.PENDING, PodPhase.RUNNING, PodPhase.TERMINATING
COMPLETED, FAILED = PodPhase.COMPLETED, PodPhase.FAILED
NEXT = {
    # It runs; it cannot start; or it is told to stop before it does.
    PENDING: {RUNNING, COMPLETED, FAILED, TERMINATING},
    RUNNING: {TERMINATING, COMPLETED, FAILED},
    TERMINATING: {COMPLETED, FAILED},
    # A restart; for one that has failed, also the end while it waits for that.
    COMPLETED: {PENDING},
    FAILED: {PENDING, TERMINATING},
}


@pytest.mark.parametrize(("before", "after"), list(product(PodPhase, PodPhase)), ids=lambda phase: phase.value)
def test_a_pod_goes_from_phase_to_phase_as_the_table_says_and_in_no_other_way(
    before: PodPhase, after: PodPhase
) -> None:  # K1
    assert can_follow(before, after) == (after in NEXT[before])


def test_there_are_five_phases() -> None:  # K1
    assert [phase.name for phase in PodPhase] == ["PENDING", "RUNNING", "TERMINATING", "COMPLETED", "FAILED"]


@pytest.mark.parametrize(
    ("status", "over", "words"),
    [
        (PodStatus(PENDING), False, "pending"),
        (PodStatus(RUNNING, restarts=2), False, "running"),
        (PodStatus(TERMINATING), False, "terminating"),
        (PodStatus(COMPLETED), True, "completed"),
        (PodStatus(FAILED, ValueError("bad")), True, "failed: ValueError: bad"),
        (PodStatus(FAILED, KeyError()), True, "failed: KeyError"),
    ],
    ids=str,
)
def test_a_status_says_in_words_where_the_pod_is(status: PodStatus, over: bool, words: str) -> None:  # K1
    assert (status.is_over, str(status)) == (over, words)


def test_a_status_cannot_be_changed() -> None:  # K1
    status = PodStatus(RUNNING)
    with pytest.raises((AttributeError, GreenroomError)):
        status.phase = FAILED
    assert status == PodStatus(RUNNING)
    assert status != PodStatus(FAILED)


EVERY_LIFE = [
    pytest.param(ThreadModel.DEDICATED, id="dedicated"),
    pytest.param(ThreadModel.COOPERATIVE, id="cooperative"),
]


@pytest.mark.parametrize("thread", EVERY_LIFE)
def test_observers_see_every_phase_of_a_pod_that_fails_and_ends(thread: ThreadModel) -> None:  # K1
    diary = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), thread=thread, restart=RestartPolicy.ALWAYS, expose=True), other=Pod(doer(diary))
    ).new()
    phases = Phases(troupe)
    assert troupe.status["worker"] == PodStatus(PENDING)
    error = ValueError("bad")
    with playing(troupe):
        worker = troupe.exposed().worker
        worker.send(fail_with(error))
        phases.wait("worker", RUNNING, restarts=1)
        worker.send(finish)
        status = phases.wait("worker", RUNNING, restarts=2)
        assert status == PodStatus(RUNNING, restarts=2)
        assert phases.wait("worker", FAILED).reason is error
        phases.wait("other", RUNNING)
    seen = phases.of("worker")
    assert seen == [RUNNING, FAILED, PENDING, RUNNING, COMPLETED, PENDING, RUNNING, TERMINATING, COMPLETED]
    assert all(can_follow(before, after) for before, after in pairwise([PENDING, *seen]))
    assert troupe.status["worker"] == PodStatus(COMPLETED, restarts=2)
    assert phases.of("other") == [RUNNING, TERMINATING, COMPLETED]


@pytest.mark.parametrize("thread", EVERY_LIFE)
def test_the_phase_of_a_pod_is_in_the_snapshot_of_its_system(thread: ThreadModel) -> None:  # K1
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread)).new()
    phases = Phases(troupe)
    with playing(troupe):
        phases.wait("worker", RUNNING)
        assert repr(troupe) == "<Troupe Studio: worker running>"
        supervisor = troupe.system.actor("/worker")
        assert supervisor is not None
        assert '"worker"' in troupe.system.snapshot().to_json()


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
