"""Which pods come back: the table of errors, policies, the gate for too many restarts, fatal failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from greenroom import Actor, Backoff, Lane
from greenroom.errors import ConnectTimeout, Fatal, PodGone, TroupeFailed
from greenroom.pods import KubeletConfig, Pod, PodPhase, RestartPolicy, ThreadModel, Troupe
from greenroom.testing import Simulation
from tests.pods.troupes import (
    FOREVER,
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

ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER


@pytest.mark.parametrize("thread", THREADS)
def test_a_pod_that_ends_and_is_never_restarted_has_completed(thread: ThreadModel) -> None:  # K13 row 1
    diary = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), thread=thread, restart=NEVER, expose=True), other=Pod(doer(diary))
    ).new(kubelet=FOREVER)
    phases = Phases(troupe)
    with playing(troupe) as call:
        worker = troupe.exposed().worker
        worker.send("hello")
        worker.send(finish)
        phases.wait("worker", PodPhase.COMPLETED)
        gone = send_until_gone(worker, "more")
        assert "it has ended by itself" in str(gone)
        assert gone.message == "more"
        assert gone.__cause__ is None
        assert not call.is_over
    assert call.error is None
    assert troupe.status["worker"].restarts == 0
    assert phases.of("worker") == [PodPhase.RUNNING, PodPhase.COMPLETED]


def end_five_times(
    thread: ThreadModel, restart: RestartPolicy, order: Callable[[int], object]
) -> tuple[Troupe[Any], Phases]:
    """Send a number, and then what ends the pod, five times: it is made afresh each time, and no number is lost."""
    diary = Diary()
    births = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary, lambda: births.write("born")), thread=thread, restart=restart, expose=True)
    ).new(kubelet=FOREVER)
    phases = Phases(troupe)
    with playing(troupe):
        worker = troupe.exposed().worker
        for number in range(5):
            worker.send(number)
            worker.send(order(number))
            phases.wait("worker", PodPhase.RUNNING, restarts=number + 1)
        worker.send("last")
        diary.wait_for("last")
    assert diary.entries == [0, 1, 2, 3, 4, "last"]
    assert len(births.entries) == 6
    return troupe, phases


@pytest.mark.parametrize("thread", THREADS)
def test_a_pod_that_ends_and_is_always_restarted_is_restarted_at_once(thread: ThreadModel) -> None:  # K13 row 2
    _, phases = end_five_times(thread, ALWAYS, lambda number: finish)
    assert PodPhase.FAILED not in phases.of("worker")


@pytest.mark.parametrize("thread", THREADS)
def test_a_pod_that_fails_and_is_restarted_on_failure_is_restarted(thread: ThreadModel) -> None:  # K13 row 3
    troupe, _ = end_five_times(thread, ON_FAILURE, lambda number: fail_with(ValueError(number)))
    assert troupe.system.ledger().failed == 5


@pytest.mark.parametrize("thread", THREADS)
def test_a_send_to_a_pod_that_is_being_restarted_waits_until_it_runs(thread: ThreadModel) -> None:  # K13 row 6, K4
    diary = Diary()
    hold = Hold()
    births = iter([lambda: None, lambda: hold(None)])  # type: ignore[arg-type]
    troupe = troupe_class(worker=Pod(doer(diary, lambda: next(births)()), thread=thread, expose=True)).new(
        kubelet=FOREVER
    )
    phases = Phases(troupe)
    with playing(troupe):
        worker = troupe.exposed().worker
        worker.clone().send(fail_with(ValueError("bad")))
        hold.wait()
        call = InThread(lambda: worker.send("in hand"))
        assert not call.is_over
        assert troupe.status["worker"].phase is not PodPhase.RUNNING
        hold.release()
        assert call.join() is None
        phases.wait("worker", PodPhase.RUNNING, restarts=1)
        diary.wait_for("in hand")
    assert diary.entries == ["in hand"]


@pytest.mark.parametrize("thread", THREADS)
def test_a_send_to_a_pod_that_does_not_come_back_in_time_is_refused(thread: ThreadModel) -> None:  # K13 row 6, K14
    diary = Diary()
    hold = Hold()
    births = iter([lambda: None, lambda: hold(None)])  # type: ignore[arg-type]
    troupe = troupe_class(worker=Pod(doer(diary, lambda: next(births)()), thread=thread, expose=True)).new(
        kubelet=FOREVER
    )
    with playing(troupe):
        worker = troupe.exposed().worker
        worker.send(fail_with(ValueError("bad")))
        hold.wait()
        with pytest.raises(ConnectTimeout, match=r"was not back after 0\.01 s") as caught:
            worker.send("late", timeout=0.01)
        assert caught.value.message == "late"
        assert isinstance(caught.value, TimeoutError)
        hold.release()
        worker.send("in time")
        diary.wait_for("in time")
    assert diary.entries == ["in time"]


@pytest.mark.parametrize("thread", THREADS)
def test_a_send_that_waits_for_a_pod_that_is_given_up_is_refused_at_once(thread: ThreadModel) -> None:  # K13 row 7
    diary = Diary()
    hold = Hold()
    error = ValueError("again")

    def fail() -> None:
        hold(None)  # type: ignore[arg-type]
        raise error

    births = iter([lambda: None, fail])
    troupe = troupe_class(worker=Pod(doer(diary, lambda: next(births)()), thread=thread, expose=True)).new(
        kubelet=KubeletConfig(connect_timeout=3600.0, max_restarts=1, within=3600.0)
    )
    call = InThread(troupe.play)
    worker = troupe.exposed().worker
    worker.clone().send(fail_with(ValueError("bad")))
    hold.wait()
    sends = InThread(lambda: worker.send("in hand"))
    hold.release()
    gone = sends.join()
    assert isinstance(gone, PodGone)
    assert gone.message == "in hand"
    assert gone.__cause__ is error
    failed = call.join()
    assert isinstance(failed, TroupeFailed)
    assert failed.__cause__ is error
    assert_over(troupe)


def test_a_main_pod_that_fails_ends_play_with_its_cause() -> None:  # K13 row 8, case 64
    diary = Diary()
    error = ValueError("bad")
    troupe = troupe_class(
        window=Pod(doer(diary), thread=ThreadModel.MAIN, expose=True),
        worker=Pod(doer(diary), expose=True),
        helper=Pod(doer(diary), thread=ThreadModel.COOPERATIVE),
    ).new(kubelet=FOREVER)
    troupe.exposed().window.send(fail_with(error))
    call = InThread(troupe.play)
    failed = call.join()
    assert isinstance(failed, TroupeFailed)
    assert failed.__cause__ is error
    assert failed.pod == "window"
    assert "'window'" in str(failed)
    assert "bad" in str(failed)
    assert_over(troupe)
    with pytest.raises(PodGone):
        troupe.exposed().worker.send("late")


# The policy, whether it fails, and whether it comes back.
TABLE = [
    (ALWAYS, False, True),
    (ALWAYS, True, True),
    (ON_FAILURE, False, False),
    (ON_FAILURE, True, True),
    (NEVER, False, False),
    (NEVER, True, False),
]


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("actors", [1, 3], ids=["one actor", "three actors"])
@pytest.mark.parametrize(("policy", "fails", "comes_back"), TABLE, ids=str)
def test_a_pod_comes_back_as_its_policy_says(
    policy: RestartPolicy, fails: bool, comes_back: bool, actors: int, thread: ThreadModel
) -> None:  # case 62, K2
    diary = Diary()
    names = [f"actor_{number}" for number in range(actors)]
    births = Diary()

    def born(name: str) -> Any:
        return lambda: births.write(name)

    makers: dict[str, Any] = {name: doer(diary, born(name)) for name in names}
    worker = Pod(**makers, thread=thread, restart=policy, expose=True)
    troupe = troupe_class(worker=worker, other=Pod(doer(diary))).new(kubelet=FOREVER)
    phases = Phases(troupe)
    error = ValueError("bad")
    with playing(troupe) as call:
        handles = [getattr(troupe.exposed(), name) for name in names]
        phases.wait("worker", PodPhase.RUNNING)
        if fails:
            handles[0].send(fail_with(error))
        else:
            for handle in handles:  # it has completed when the last of its actors has
                handle.send(finish)
        if comes_back:
            phases.wait("worker", PodPhase.RUNNING, restarts=1)
            for handle in handles:
                handle.send(handle.name)
            diary.wait_for(*names)
            assert set(births.entries) == set(names)
            if fails:
                assert births.entries == names * 2
        else:
            phases.wait("worker", PodPhase.FAILED if fails else PodPhase.COMPLETED)
            for handle in handles:
                gone = send_until_gone(handle, "late")
                assert gone.__cause__ is (error if fails else None)
            assert births.entries == names
        assert not call.is_over
    assert call.error is None
    assert troupe.status["worker"].restarts == comes_back if fails or actors == 1 else True


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("policy", [ALWAYS, ON_FAILURE, NEVER])
@pytest.mark.parametrize("actors", [1, 2], ids=["one actor", "two actors"])
def test_a_fatal_failure_is_final_whatever_the_policy(
    policy: RestartPolicy, actors: int, thread: ThreadModel, caplog: pytest.LogCaptureFixture
) -> None:  # K11
    diary = Diary()
    more: dict[str, Any] = {"second": doer(diary)} if actors == 2 else {}
    troupe = troupe_class(
        pod=Pod(first=doer(diary), **more, thread=thread, restart=policy, expose=True), other=Pod(doer(diary))
    ).new(kubelet=FOREVER)
    phases = Phases(troupe)
    error = Fatal("no such device")
    with playing(troupe) as call:
        first = troupe.exposed().first
        first.send(fail_with(error))
        first.send("behind it")
        assert phases.wait("pod", PodPhase.FAILED).reason is error
        gone = send_until_gone(first, "late")
        assert "no such device" in str(gone)
        assert gone.__cause__ is error
        assert not call.is_over
    assert call.error is None
    assert troupe.status["pod"].restarts == 0
    assert "behind it" not in diary.entries
    assert "TypeError" not in caplog.text


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("fails", [True, False], ids=["failed", "completed"])
def test_the_fourth_end_within_the_time_ends_the_troupe(
    thread: ThreadModel, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:  # case 63
    diary = Diary()
    births = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary, lambda: births.write("born")), thread=thread, restart=ALWAYS, expose=True),
        other=Pod(doer(diary), expose=True),
    ).new(kubelet=KubeletConfig(max_restarts=3, within=3600.0, connect_timeout=3600.0))
    phases = Phases(troupe)
    worker = troupe.exposed().worker
    call = InThread(troupe.play)
    error = ValueError("bad")
    for number in range(4):
        phases.wait("worker", PodPhase.RUNNING, restarts=number)
        worker.send(fail_with(error) if fails else finish)
    failed = call.join()
    assert isinstance(failed, TroupeFailed)
    assert failed.pod == "worker"
    if fails:
        assert failed.__cause__ is error
    else:
        assert "restart number 4 in 3600 s" in str(failed.__cause__)
    assert len(births.entries) == 4
    for handle in troupe.exposed():
        with pytest.raises(PodGone):
            getattr(troupe.exposed(), handle).send("late")
    assert_over(troupe)
    assert "TypeError" not in caplog.text


def test_the_gate_counts_all_pods_of_a_kubelet_together() -> None:  # case 63, K11
    diary = Diary()
    troupe = troupe_class(one=Pod(doer(diary), expose=True), two=Pod(doer(diary), expose=True)).new(
        kubelet=KubeletConfig(max_restarts=3, within=3600.0)
    )
    phases = Phases(troupe)
    call = InThread(troupe.play)
    for name, restarts in (("one", 1), ("two", 1), ("one", 2)):
        getattr(troupe.exposed(), name).send(fail_with(ValueError(name)))
        phases.wait(name, PodPhase.RUNNING, restarts=restarts)
    troupe.exposed().two.send(fail_with(ValueError("the last")))
    failed = call.join()
    assert isinstance(failed, TroupeFailed)
    assert failed.pod == "two"
    assert str(failed.__cause__) == "the last"
    assert_over(troupe)


@pytest.mark.parametrize(("pause", "survives"), [(3.0, False), (3.5, True)])
def test_the_gate_is_a_window_that_slides(pause: float, survives: bool) -> None:  # case 63
    async def main() -> None:
        diary = Diary()
        troupe = troupe_class(worker=Pod(doer(diary), expose=True), other=Pod(doer(diary))).new(
            kubelet=KubeletConfig(max_restarts=3, within=10.0)
        )
        worker = troupe.exposed().worker
        try:
            async with troupe:
                for number in range(6):
                    await worker.asend(number)
                    await worker.asend(fail_with(ValueError(number)))
                    await asyncio.sleep(pause)
                await worker.asend("last")
                await troupe.system.settle()
        except TroupeFailed as failed:
            ended_by = str(failed.__cause__)
        else:
            ended_by = ""
            assert diary.entries == [*range(6), "last"]
        assert ended_by == ("" if survives else "3")
        assert_over(troupe)

    Simulation().run_main(main)


def test_a_restart_waits_as_long_as_the_backoff_says() -> None:  # K11
    times = []

    async def main() -> None:
        diary = Diary()
        aio = asyncio.get_running_loop()
        troupe = troupe_class(worker=Pod(doer(diary, lambda: times.append(aio.time())), expose=True)).new(
            kubelet=KubeletConfig(
                max_restarts=None, backoff=Backoff(min=1.0, max=4.0, factor=2.0), connect_timeout=60.0
            )
        )
        worker = troupe.exposed().worker
        async with troupe:
            for number in range(4):
                await worker.asend(fail_with(ValueError(number)))
                await worker.asend(number)
                await troupe.system.settle()
        assert diary.entries == [0, 1, 2, 3]

    Simulation(schedule="fifo").run_main(main)
    waits = [round(after - before, 3) for before, after in pairwise(times)]
    assert waits == [1.0, 2.0, 4.0, 4.0]


def test_a_main_pod_that_ends_ends_the_troupe() -> None:  # K9
    diary = Diary()
    troupe = troupe_class(
        window=Pod(doer(diary), thread=ThreadModel.MAIN, expose=True), worker=Pod(doer(diary), expose=True)
    ).new()
    troupe.exposed().worker.send("before")
    troupe.exposed().window.send(finish)
    call = InThread(troupe.play)
    assert call.join() is None
    assert troupe.status["window"].phase is PodPhase.COMPLETED
    assert troupe.status["worker"].phase is PodPhase.COMPLETED
    assert diary.entries == ["before"]
    assert_over(troupe)


@pytest.mark.parametrize("fails", [True, False], ids=["failed", "completed"])
def test_a_troupe_ends_when_all_its_pods_have(fails: bool) -> None:  # K9
    diary = Diary()
    troupe = troupe_class(
        one=Pod(doer(diary), restart=NEVER, expose=True),
        two=Pod(doer(diary), restart=NEVER, thread=ThreadModel.COOPERATIVE, expose=True),
    ).new()
    for handle in (troupe.exposed().one, troupe.exposed().two):
        handle.send(fail_with(ValueError("bad")) if fails else finish)
    call = InThread(troupe.play)
    assert call.join() is None
    assert_over(troupe)


class Partner(Actor[Any, None]):
    """Knows which life of the other it talks to."""

    lives: dict[str, int]

    def __init__(self, name: str, diary: Diary) -> None:
        self.name = name
        self.diary = diary

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self)
        self.diary.write((message, [getattr(self.pod, name) is self for name in self.pod]))  # type: ignore[attr-defined]
        return None


@pytest.mark.parametrize("thread", THREADS)
def test_the_actors_of_a_pod_are_restarted_together_and_meet_the_new_ones(thread: ThreadModel) -> None:  # K11, K17
    diary = Diary()
    mates: list[list[int]] = []

    def look(actor: Any) -> None:
        mates.append([id(actor.pod.left), id(actor.pod.right)])
        assert actor.pod.left is not actor.pod.right
        assert actor in (actor.pod.left, actor.pod.right)

    from greenroom import props

    troupe = troupe_class(
        pod=Pod(left=props(Partner, "left", diary), right=props(Partner, "right", diary), thread=thread, expose=True)
    ).new(kubelet=FOREVER)
    phases = Phases(troupe)
    kept: list[Any] = []
    with playing(troupe):
        left, right = troupe.exposed().left, troupe.exposed().right
        for number in range(3):
            left.send(lambda actor: kept.extend([actor.pod.left, actor.pod.right]))
            left.send(look)
            right.send(look)
            right.send("x", lane=Lane.DATA)
            diary.wait_for_count(number + 1)
            left.send(fail_with(ValueError(number)))
            phases.wait("pod", PodPhase.RUNNING, restarts=number + 1)
    assert len(mates) == 6
    assert all(mates[number] == mates[number + 1] for number in (0, 2, 4))
    assert len({tuple(one) for one in mates}) == 3
    assert len({id(one) for one in kept}) == 6


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("how", [finish, fail_with(ValueError("bad"))], ids=["ends", "fails"])
def test_what_waits_in_a_pod_that_comes_back_is_handled_after_it(how: Any, thread: ThreadModel) -> None:  # K2, K11
    diary = Diary()
    hold = Hold()
    troupe = troupe_class(
        worker=Pod(first=doer(diary), second=doer(diary), thread=thread, restart=ALWAYS, expose=True)
    ).new(kubelet=FOREVER)
    phases = Phases(troupe)
    with playing(troupe):
        first, second = troupe.exposed().first, troupe.exposed().second
        first.send(hold)
        hold.wait()
        for number in range(100):
            first.send((1, number))
            second.send((2, number))
            if number == 50:
                first.send(how)
        if how is finish:
            second.send(finish)
        hold.release()
        phases.wait("worker", PodPhase.RUNNING, restarts=1)
        diary.wait_for_count(200)
    for actor in (1, 2):
        assert [number for one, number in diary.entries if one == actor] == list(range(100))
    assert troupe.system.ledger().dead_lettered == 0
