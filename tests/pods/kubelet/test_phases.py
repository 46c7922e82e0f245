"""The phases of a pod's life: which can follow which, and how a status shows itself."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from greenroom.errors import GreenroomError
from greenroom.pods import Pod, PodPhase, PodStatus, RestartPolicy, ThreadModel
from greenroom.pods.kubelet.podrecord import can_follow
from tests.pods.troupes import Diary, Phases, doer, fail_with, finish, playing, troupe_class

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
