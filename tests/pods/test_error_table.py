"""The table of errors, row by row, for pods with a thread of their own and for cooperative ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from greenroom.errors import ConnectTimeout, PodGone, TroupeFailed
from greenroom.pods import KubeletConfig, Pod, PodPhase, RestartPolicy, ThreadModel, Troupe
from tests.pods.troupes import (
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

THREADS = [
    pytest.param(ThreadModel.DEDICATED, id="dedicated"),
    pytest.param(ThreadModel.COOPERATIVE, id="cooperative"),
]
ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER
FOREVER = KubeletConfig(connect_timeout=3600.0, max_restarts=None)


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
def test_a_pod_that_fails_and_is_never_restarted_is_gone(thread: ThreadModel) -> None:  # K13 row 4
    diary = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), thread=thread, restart=NEVER, expose=True), other=Pod(doer(diary))
    ).new(kubelet=FOREVER)
    phases = Phases(troupe)
    error = ValueError("bad")
    with playing(troupe) as call:
        worker = troupe.exposed().worker
        worker.send(fail_with(error))
        assert phases.wait("worker", PodPhase.FAILED).reason is error
        gone = send_until_gone(worker, "more")
        assert "bad" in str(gone)
        assert gone.message == "more"
        assert gone.pod == "worker"
        assert gone.__cause__ is error
        assert worker.is_gone
        assert not call.is_over
    assert call.error is None
    assert troupe.status["worker"].phase is PodPhase.FAILED
    assert troupe.status["worker"].restarts == 0


@pytest.mark.parametrize("thread", THREADS)
def test_one_restart_too_many_ends_the_troupe(thread: ThreadModel) -> None:  # K13 row 5
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True), other=Pod(doer(diary), expose=True)).new(
        kubelet=KubeletConfig(max_restarts=2, within=3600.0, connect_timeout=3600.0)
    )
    errors = [ValueError(number) for number in range(3)]
    worker = troupe.exposed().worker
    for error in errors:
        worker.send(fail_with(error))
    call = InThread(troupe.play)
    failed = call.join()
    assert isinstance(failed, TroupeFailed)
    assert failed.pod == "worker"
    assert failed.__cause__ is errors[2]
    assert_over(troupe)
    for handle in troupe.exposed().worker.clone(), troupe.exposed().other:
        with pytest.raises(PodGone):
            handle.send("late")


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
