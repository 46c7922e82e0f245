"""Troupes as a whole: several in one process, dropped ones, threads, and ends of play under senders."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from greenroom.errors import NoThread, PodGone, SystemStopped, WaitsForItself
from greenroom.pods import Buffers, KubeletConfig, Pod, PodPhase, ShutdownMode, ThreadModel, Troupe
from greenroom.testing import assert_ledger_balanced
from tests.pods.troupes import (
    PATIENCE,
    Diary,
    InThread,
    Phases,
    assert_over,
    doer,
    fail_with,
    finish,
    playing,
    troupe_class,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENT = KubeletConfig(max_restarts=None, connect_timeout=PATIENCE)


def test_two_troupes_in_one_process_know_nothing_of_each_other() -> None:  # K9, K15
    diaries = [Diary(), Diary()]
    studios = [
        troupe_class(worker=Pod(doer(diary), expose=True), helper=Pod(doer(diary), thread=ThreadModel.COOPERATIVE))
        for diary in diaries
    ]
    one, two = (studio.new(kubelet=PATIENT) for studio in studios)
    phases = Phases(one)
    with playing(two) as other:
        with playing(one):
            one.exposed().worker.send(fail_with(ValueError("bad")))
            phases.wait("worker", PodPhase.RUNNING, restarts=1)
            two.exposed().worker.send("two")
            diaries[1].wait_for("two")
        with pytest.raises(PodGone):
            one.exposed().worker.send("late")
        assert not other.is_over
        two.exposed().worker.send("still there")
        diaries[1].wait_for("still there")
    assert two.status["worker"].restarts == 0


def test_a_handle_of_one_troupe_may_be_used_in_another() -> None:  # K15
    diary = Diary()
    inner = troupe_class(worker=Pod(doer(diary), expose=True)).new(kubelet=PATIENT)
    outer = troupe_class(sender=Pod(doer(Diary()), expose=True)).new(kubelet=PATIENT)
    handle = inner.exposed().worker.clone()
    phases = Phases(inner)
    with playing(inner), playing(outer):
        outer.exposed().sender.send(lambda actor: handle.send("before"))
        diary.wait_for("before")
        inner.exposed().worker.send(fail_with(ValueError("bad")))
        phases.wait("worker", PodPhase.RUNNING, restarts=1)
        outer.exposed().sender.send(lambda actor: handle.send("after"))
        diary.wait_for("after")


def test_a_troupe_that_is_dropped_without_playing_is_forgotten() -> None:  # K10
    troupe = troupe_class(worker=Pod(doer(Diary()), expose=True)).new()
    troupe.exposed().worker.send("never handled")
    found = weakref.ref(troupe), weakref.ref(troupe.system)
    del troupe
    gc.collect()
    assert [one() for one in found] == [None, None]


def test_a_troupe_that_has_played_leaves_no_thread_and_nothing_else() -> None:  # K9
    before = set(threading.enumerate())
    diary = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), expose=True),
        helper=Pod(doer(diary), thread=ThreadModel.COOPERATIVE, expose=True),
        window=Pod(doer(diary), thread=ThreadModel.MAIN, expose=True),
    ).new()
    for name in troupe.exposed():
        getattr(troupe.exposed(), name).send(name)
    with playing(troupe):
        diary.wait_for("worker", "helper", "window")
    assert set(threading.enumerate()) <= before
    found = weakref.ref(troupe), weakref.ref(troupe.system)
    del troupe
    gc.collect()
    assert [one() for one in found] == [None, None]


def test_plain_threads_may_send_while_play_ends() -> None:  # K4, K5
    for _ in range(30):
        diary, dead = Diary(), Diary()
        troupe = troupe_class(worker=Pod(doer(diary), expose=True), last=Pod(doer(diary), expose=True)).new(
            kubelet=PATIENT
        )
        troupe.system.dead_letters.subscribe(lambda letter, dead=dead: dead.write(letter.message))  # type: ignore[misc]
        sent = [0, 0]

        def send(which: int, handle: Any, sent: list[int] = sent) -> None:
            try:
                while True:
                    handle.send((which, sent[which]))
                    sent[which] += 1
            except PodGone:
                pass

        call = InThread(troupe.play)
        handles = [troupe.exposed().worker.clone(), troupe.exposed().last.clone()]
        senders = [InThread(partial(send, n, handles[n])) for n in range(2)]
        diary.wait_for((0, 0), (1, 0))
        troupe.exposed().worker.send(finish)
        troupe.exposed().last.send(finish)
        assert [sender.join() for sender in senders] == [None, None]
        assert call.join() is None
        assert_over(troupe)
        told = [one for one in diary.entries + dead.entries if isinstance(one, tuple)]
        assert len(told) == len(set(told)) == sum(sent)


def test_an_asyncio_program_may_run_a_troupe_beside_its_own_work() -> None:  # K9
    diary = Diary()
    troupe = troupe_class(
        worker=Pod(doer(diary), expose=True), window=Pod(doer(diary), thread=ThreadModel.MAIN, expose=True)
    ).new(kubelet=PATIENT)

    async def main() -> None:
        async with troupe:
            for name in troupe.exposed():
                await getattr(troupe.exposed(), name).asend(name)
            await troupe.system.settle()
            with pytest.raises(WaitsForItself, match="async with"):
                troupe.play()

    asyncio.run(main())
    assert sorted(diary.entries) == ["window", "worker"]
    assert_over(troupe)


def ways_to_run(troupe: Troupe[Any]) -> dict[str, Callable[[], object]]:
    async def in_a_coroutine() -> None:
        async with troupe:
            raise AssertionError("it was entered")

    return {
        "play": troupe.play,
        "with": lambda: troupe.__enter__(),
        "async with": lambda: asyncio.run(in_a_coroutine()),
    }


@pytest.mark.parametrize("way", ["play", "with", "async with"])
def test_a_troupe_that_plays_cannot_be_run_again_and_goes_on(way: str) -> None:  # K9
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True, buffers=Buffers(data=2))).new()
    with playing(troupe) as call:
        worker = troupe.exposed().worker
        worker.send("begun")
        diary.wait_for("begun")
        with pytest.raises(WaitsForItself, match="the troupe 'Studio' is running already"):
            ways_to_run(troupe)[way]()
        for number in range(20):  # more than the ring holds: a handle waits for room while its troupe plays
            worker.send(number)
        diary.wait_for(19)
        troupe.stop(ShutdownMode.DRAIN_ALL)
        assert call.join() is None
    assert diary.entries == ["begun", *range(20)]


@pytest.mark.parametrize("way", ["play", "with", "async with"])
@pytest.mark.parametrize("has_played", [True, False])
def test_a_troupe_that_is_over_cannot_be_run_again(way: str, has_played: bool) -> None:  # K9
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True)).new()
    if has_played:
        with playing(troupe) as call:
            troupe.exposed().worker.send("begun")
            diary.wait_for("begun")
            troupe.stop()
            assert call.join() is None
    else:
        troupe.stop()
    with pytest.raises(SystemStopped, match=r"the troupe 'Studio' .* has stopped: make another, with Studio.new\(\)"):
        ways_to_run(troupe)[way]()
    with pytest.raises(PodGone):
        troupe.exposed().worker.send(1)
    assert_ledger_balanced(troupe.system)


@pytest.mark.parametrize("thread", ["Studio", "Studio pod one", "Studio pod two"])
@pytest.mark.parametrize("way", ["play", "play with MAIN", "with", "async with", "async with MAIN"])
def test_a_troupe_that_could_not_be_started_can_be_started_again(
    way: str, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # K9 J4
    diary = Diary()
    pods = {"one": Pod(doer(diary), expose=True), "two": Pod(doer(diary), expose=True)}
    if way.endswith("MAIN"):
        pods["main"] = Pod(doer(diary), thread=ThreadModel.MAIN)
    troupe = troupe_class(**pods).new()
    start = threading.Thread.start

    def cannot(self: threading.Thread) -> None:
        if self.name == thread:
            raise RuntimeError("can't start new thread")
        start(self)

    async def in_a_coroutine() -> None:
        async with troupe:
            await asyncio.to_thread(diary.wait_for, 1, 2)

    def in_a_block() -> None:
        with troupe:
            diary.wait_for(1, 2)

    def end(actor: Any) -> None:
        troupe.stop(ShutdownMode.DRAIN_ALL)

    def run() -> None:
        if way.startswith("play"):
            troupe.exposed().two.clone().send(end)
            troupe.play()
        elif way == "with":
            in_a_block()
        else:
            asyncio.run(in_a_coroutine())

    troupe.exposed().one.send(1)
    troupe.exposed().two.send(2)
    if not (thread == "Studio" and way.startswith("async")):  # that has no thread for the kubelet
        monkeypatch.setattr(threading.Thread, "start", cannot)
        with pytest.raises(NoThread):
            run()
        monkeypatch.undo()
    run()
    assert sorted(diary.entries) == [1, 2]
    assert_over(troupe)
