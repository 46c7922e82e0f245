"""Troupes within troupes: names and a kubelet of their own, and a boundary at which restarts stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Backoff, SystemConfig
from greenroom.errors import ManifestError, PodGone, TroupeEnding
from greenroom.pods import Buffers, KubeletConfig, Pod, PodPhase, RestartPolicy, ShutdownMode, ThreadModel, Troupe
from greenroom.testing import assert_ledger_balanced
from tests.pods.troupes import Diary, Hold, Phases, doer, fail_with, finish, playing, send_until_gone, troupe_class
from tests.pods.workers import Caller

ONCE = KubeletConfig(max_restarts=1)
THREADS = (ThreadModel.DEDICATED, ThreadModel.COOPERATIVE)


def inner(diary: Diary, **options: Any) -> type[Troupe[Any]]:
    return troupe_class(echo=Pod(doer(diary), expose=True, **options), other=Pod(doer(diary)))


def outer(within: type[Troupe[Any]], diary: Diary, **options: Any) -> type[Troupe[Any]]:
    return troupe_class(within=Pod(within, expose=True, kubelet=ONCE, **options), beside=Pod(doer(diary), expose=True))


@pytest.mark.parametrize("thread", THREADS)
def test_what_a_troupe_within_exposes_is_reached_from_above(thread: ThreadModel) -> None:  # K15
    diary = Diary()
    with outer(inner(diary), diary, thread=thread).new() as troupe:
        troupe.exposed().within.echo.send("from outside")
        troupe.exposed().beside.send(lambda actor: actor.peers.within.echo.send("from beside"))
        diary.wait_for("from outside", "from beside")
        assert set(troupe.status) == {"within", "beside", "within.echo", "within.other"}
    assert_ledger_balanced(troupe.system)


def test_an_actor_within_has_no_peers_above() -> None:  # K15
    diary, seen = Diary(), Diary()
    with outer(inner(diary), diary).new() as troupe:
        troupe.exposed().within.echo.send(lambda actor: seen.write(list(actor.peers)))
        seen.wait_for(["other"])


@pytest.mark.parametrize("thread", THREADS)
def test_a_restart_within_is_nobodys_business_above(thread: ThreadModel) -> None:  # K15
    diary = Diary()
    with outer(inner(diary, thread=thread), diary).new() as troupe:
        phases, echo = Phases(troupe), troupe.exposed().within.echo
        echo.send(fail_with(ValueError("boom")))
        echo.send("after")
        diary.wait_for("after")
        phases.wait("within.echo", PodPhase.RUNNING, restarts=1)
        assert troupe.status["within"].restarts == 0


def test_a_troupe_that_nobody_watches_fails_alone() -> None:  # K15
    diary = Diary()
    with outer(inner(diary), diary).new() as troupe:
        phases, echo = Phases(troupe), troupe.exposed().within.echo
        for _ in range(2):
            echo.send(fail_with(ValueError("boom")))
        phases.wait("within", PodPhase.FAILED)
        send_until_gone(echo, "more")
        troupe.exposed().beside.send("still here")
        diary.wait_for("still here")
    assert_ledger_balanced(troupe.system)


@pytest.mark.parametrize("thread", THREADS)
def test_a_troupe_that_is_watched_is_brought_up_again(thread: ThreadModel) -> None:  # K15
    diary = Diary()
    with outer(inner(diary), diary, watch=True, thread=thread).new() as troupe:
        phases, echo = Phases(troupe), troupe.exposed().within.echo
        for _ in range(2):
            echo.send(fail_with(ValueError("boom")))
        phases.wait("within", PodPhase.RUNNING, restarts=1)
        echo.send("again")
        diary.wait_for("again")
        assert troupe.status["within.other"].phase is PodPhase.RUNNING
    assert_ledger_balanced(troupe.system)


def test_a_troupe_whose_pods_have_all_ended_has_completed() -> None:  # K15
    diary = Diary()
    within = troupe_class(echo=Pod(doer(diary), expose=True))
    with outer(within, diary).new() as troupe:
        phases = Phases(troupe)
        troupe.exposed().within.echo.send(finish)
        phases.wait("within", PodPhase.COMPLETED)


def test_a_troupe_that_is_always_restarted_comes_back_when_it_has_completed() -> None:  # K15
    diary = Diary()
    within = troupe_class(echo=Pod(doer(diary), expose=True))
    with outer(within, diary, restart=RestartPolicy.ALWAYS).new() as troupe:
        phases, echo = Phases(troupe), troupe.exposed().within.echo
        echo.send(finish)
        phases.wait("within", PodPhase.RUNNING, restarts=1)
        echo.send("again")
        diary.wait_for("again")


@pytest.mark.parametrize("thread", THREADS)
def test_the_main_pod_of_a_troupe_within_ends_that_and_is_reached_again_if_it_is_watched(
    thread: ThreadModel,
) -> None:  # K15
    diary = Diary()
    within = troupe_class(front=Pod(doer(diary), thread=ThreadModel.MAIN, expose=True), back=Pod(doer(diary)))
    with outer(within, diary, watch=True, thread=thread).new() as troupe:
        phases, front = Phases(troupe), troupe.exposed().within.front
        front.send("here")
        front.send(fail_with(ValueError("boom")))
        phases.wait("within", PodPhase.RUNNING, restarts=1)
        front.send("again")
        diary.wait_for("here", "again")


def test_a_pod_in_a_process_reaches_a_troupe_within() -> None:  # K15 K3
    diary = Diary()
    made = troupe_class(
        within=Pod(inner(diary)),
        caller=Pod(Caller, thread=ThreadModel.PROCESS, expose=True),
    )
    with made.new() as troupe:
        troupe.exposed().caller.send("from a process")
        diary.wait_for("from a process")


@pytest.mark.parametrize("thread", [ThreadModel.MAIN, ThreadModel.PROCESS])
def test_a_troupe_within_cannot_be_on_one_thread_or_in_one_process(thread: ThreadModel) -> None:  # K9
    with pytest.raises(ManifestError, match="troupe"):
        troupe_class(within=Pod(inner(Diary()), thread=thread))


def test_a_troupe_within_needs_a_pod_of_its_own() -> None:  # K9
    with pytest.raises(ManifestError, match="a pod of its own"):
        troupe_class(both=Pod(within=inner(Diary()), beside=doer(Diary())))


DEEP = ("middle", "other", "middle.inner", "middle.bad", "middle.inner.deep")


def three_deep(diary: Diary, watch: bool, bad: ThreadModel = ThreadModel.DEDICATED) -> type[Troupe[Any]]:
    deepest = troupe_class(deep=Pod(doer(diary), expose=True))
    middle = troupe_class(inner=Pod(deepest, expose=True), bad=Pod(doer(diary), thread=bad, expose=True))
    within = Pod(middle, expose=True, watch=watch, kubelet=KubeletConfig(max_restarts=0))
    return troupe_class(middle=within, other=Pod(doer(diary), expose=True))


@pytest.mark.parametrize("before", ["runs", "has ended"])
def test_a_troupe_that_is_brought_up_again_brings_up_those_within(before: str) -> None:  # K15
    diary = Diary()
    with three_deep(diary, watch=True).new() as troupe:
        assert set(troupe.status) == set(DEEP)
        phases, middle = Phases(troupe), troupe.exposed().middle
        for restarts in (1, 2):
            if before == "has ended":
                middle.inner.deep.send(finish)
                phases.wait("middle.inner", PodPhase.COMPLETED)
                send_until_gone(middle.inner.deep, "more")
            middle.bad.send(fail_with(ValueError("boom")))
            phases.wait("middle", PodPhase.RUNNING, restarts=restarts)
            middle.inner.deep.send(f"deep {restarts}")
            middle.bad.send(f"bad {restarts}")
            diary.wait_for(f"deep {restarts}", f"bad {restarts}")
        troupe.exposed().other.send("undisturbed")
        diary.wait_for("undisturbed")
        assert troupe.status["other"].restarts == 0
    assert_ledger_balanced(troupe.system)
    assert {one.phase for one in troupe.status.values()} == {PodPhase.COMPLETED}


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "completes"])
def test_a_troupe_that_is_gone_takes_those_within_along_and_nobody_else(fails: bool) -> None:  # K15
    diary = Diary()
    bad = ThreadModel.DEDICATED if fails else ThreadModel.MAIN
    with three_deep(diary, watch=False, bad=bad).new() as troupe:
        phases, middle = Phases(troupe), troupe.exposed().middle
        middle.bad.send(fail_with(ValueError("boom")) if fails else finish)
        phases.wait("middle", PodPhase.FAILED if fails else PodPhase.COMPLETED)
        send_until_gone(middle.inner.deep, "more")
        troupe.exposed().other.send("undisturbed")
        diary.wait_for("undisturbed")
    assert_ledger_balanced(troupe.system)


def test_a_watched_troupe_is_brought_up_again_after_the_backoff_and_its_senders_wait() -> None:  # K15 K11
    diary = Diary()
    backing_off = KubeletConfig(max_restarts=3, backoff=Backoff(min=0.05, max=0.05))
    with outer(inner(diary), diary, watch=True).new(kubelet=backing_off) as troupe:
        phases, echo = Phases(troupe), troupe.exposed().within.echo
        for restarts in (1, 2):
            for _ in range(2):
                echo.send(fail_with(ValueError("boom")))
            echo.send(f"again {restarts}")
            phases.wait("within", PodPhase.RUNNING, restarts=restarts)
            echo.send(f"more {restarts}")
            diary.wait_for(f"more {restarts}")
    assert_ledger_balanced(troupe.system)


def test_observers_tell_the_pods_of_two_troupes_within_apart() -> None:  # K15 K1
    diary = Diary()
    with troupe_class(one=Pod(inner(diary), expose=True), two=Pod(inner(diary), expose=True)).new() as troupe:
        phases = Phases(troupe)
        troupe.exposed().two.echo.send(finish)
        phases.wait("two.echo", PodPhase.COMPLETED)
        assert PodPhase.COMPLETED not in phases.of("one.echo")


def flood(peer: str, told: Diary) -> Callable[[Any], None]:
    """Told to a `Doer`: send to a peer until that is refused."""

    def send(actor: Any) -> None:
        told.write("begun")
        try:
            while True:
                getattr(actor.peers, peer).send("more")
        except PodGone as error:
            told.write(type(error))
            raise

    return send


TINY = Buffers(data=2)


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "completes"])
@pytest.mark.parametrize("thread", THREADS)
def test_a_troupe_within_that_comes_to_its_end_waits_for_no_sender_of_its_own(
    thread: ThreadModel, fails: bool
) -> None:  # K15 K5
    diary, told = Diary(), Diary()
    hold = Hold()
    main = Pod(doer(diary), thread=ThreadModel.MAIN, expose=True, buffers=TINY)
    within = troupe_class(echo=main, sender=Pod(doer(told), expose=True))
    patient = KubeletConfig(max_restarts=0, connect_timeout=3600.0)
    made = troupe_class(within=Pod(within, expose=True, kubelet=patient, watch=True, thread=thread))
    with made.new() as troupe:
        phases, handles = Phases(troupe), troupe.exposed().within
        handles.echo.send(hold)
        hold.wait()
        handles.sender.send(flood("echo", told))
        told.wait_for("begun")
        hold.release(fail_with(ValueError("boom")) if fails else finish)
        told.wait_for(TroupeEnding)
        if fails:
            phases.wait("within", PodPhase.RUNNING, restarts=1)
            handles.echo.send("again")
            diary.wait_for("again")
        else:
            phases.wait("within", PodPhase.COMPLETED)
        assert troupe.system.ledger(troupe.system.actor("/within.sender/sender")).failed == 0
    assert_ledger_balanced(troupe.system)


@pytest.mark.parametrize("thread", THREADS)
def test_a_sender_within_that_waits_holds_up_the_end_no_longer_than_the_drain(thread: ThreadModel) -> None:  # K16
    told = Diary()
    hold = Hold()
    within = troupe_class(echo=Pod(doer(Diary()), expose=True, buffers=TINY), sender=Pod(doer(told), expose=True))
    troupe = troupe_class(within=Pod(within, expose=True, thread=thread)).new(
        kubelet=KubeletConfig(drain_timeout=0.05, connect_timeout=3600.0), config=SystemConfig(stop_timeout=3600.0)
    )
    with playing(troupe) as call:
        troupe.exposed().within.echo.send(hold)
        hold.wait()
        troupe.exposed().within.sender.send(flood("echo", told))
        told.wait_for("begun")
        troupe.stop(ShutdownMode.DRAIN_ALL)
        told.wait_for(TroupeEnding)
        hold.release()
        assert call.join() is None
