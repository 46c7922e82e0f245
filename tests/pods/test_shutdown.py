"""The ends of a troupe: each mode, from everywhere, under floods, with senders blocked, and racing with failures."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from greenroom import Backoff, Lane, SystemConfig
from greenroom.errors import GreenroomError, PodGone, SystemStopped, TroupeEnding, TroupeFailed, WaitsForItself
from greenroom.pods import (
    Buffers,
    Bursts,
    KubeletConfig,
    MainLoop,
    Pod,
    PodPhase,
    PodStatus,
    ServiceHandle,
    ShutdownMode,
    ThreadModel,
    Troupe,
)
from greenroom.testing import assert_ledger_balanced
from tests.pods.troupes import (
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

PATIENT = KubeletConfig(max_restarts=None, connect_timeout=3600.0)
ALL = Buffers(data=64, control=64, management=64, log=64)

# The lanes that are handled; what waits in the others is a dead letter.
MODES = [
    (ShutdownMode.IMMEDIATE, set()),
    (ShutdownMode.DRAIN_CONTROL, {Lane.CONTROL, Lane.MANAGEMENT}),
    (ShutdownMode.DRAIN_ALL, set(Lane)),
]


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("burst", [1, 64])
@pytest.mark.parametrize(("mode", "handled"), MODES, ids=lambda value: getattr(value, "value", ""))
def test_what_waits_when_a_troupe_is_shut_down_is_handled_as_the_mode_says(
    mode: ShutdownMode, handled: set[Lane], burst: int, thread: ThreadModel
) -> None:  # K16
    diary, dead = Diary(), Diary()
    hold = Hold()
    troupe = troupe_class(
        worker=Pod(doer(diary), thread=thread, expose=True, buffers=ALL, bursts=Bursts(burst, burst, burst, burst))
    ).new(kubelet=PATIENT)
    troupe.system.dead_letters.subscribe(lambda letter: dead.write(letter.message))
    with playing(troupe) as call:
        worker = troupe.exposed().worker
        worker.send(hold)
        hold.wait()
        for number in range(10):
            for lane in Lane:
                worker.send((lane, number), lane=lane)
        troupe.stop(mode, timeout=PATIENCE)
        hold.release()
        assert call.join() is None
    assert sorted(diary.entries) == sorted((lane, number) for lane in handled for number in range(10))
    assert sorted(dead.entries) == sorted((lane, number) for lane in set(Lane) - handled for number in range(10))
    for lane in handled:
        assert [number for one, number in diary.entries if one is lane] == list(range(10))


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("mode", ShutdownMode, ids=lambda mode: mode.value)
def test_a_handler_that_does_not_end_does_not_keep_a_troupe_longer_than_its_deadline(
    mode: ShutdownMode, thread: ThreadModel
) -> None:  # K16
    diary = Diary()

    async def forever(actor: Any) -> None:
        diary.write("begun")
        await asyncio.Event().wait()

    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True)).new(kubelet=PATIENT)
    with playing(troupe) as call:
        worker = troupe.exposed().worker
        worker.send(forever)
        worker.send("behind")
        diary.wait_for("begun")
        troupe.stop(mode, timeout=0.05)
        assert call.join() is None
    assert diary.entries == ["begun"]


@pytest.mark.parametrize("mode", ShutdownMode, ids=lambda mode: mode.value)
def test_a_handler_that_holds_its_thread_does_not_keep_a_troupe_longer_than_its_deadline(
    mode: ShutdownMode,
) -> None:  # K16
    hold = Hold()
    troupe = troupe_class(worker=Pod(doer(Diary()), expose=True), other=Pod(doer(Diary()))).new(
        kubelet=PATIENT, config=SystemConfig(stop_timeout=0.05)
    )
    call = InThread(troupe.play)
    troupe.exposed().worker.send(hold)
    hold.wait()
    troupe.stop(mode, timeout=0.05)
    try:
        assert call.join() is None  # it is named in the log, and left behind with what it has in hand
    finally:
        hold.release()
    assert_ledger_balanced(troupe.system)


@pytest.mark.parametrize("way", ["stop", "with"])
def test_who_holds_a_thread_at_the_end_is_named_and_what_waits_behind_it_is_counted(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:  # K16
    hold = Hold()
    troupe = troupe_class(worker=Pod(doer(Diary()), expose=True), other=Pod(doer(Diary()))).new(
        kubelet=KubeletConfig(drain_timeout=0.05), config=SystemConfig(stop_timeout=0.05)
    )
    worker = troupe.exposed().worker

    def hold_it() -> None:
        worker.send(hold)
        hold.wait()
        worker.clone().send("behind")

    def in_a_block() -> None:
        with troupe:
            hold_it()

    if way == "with":
        call = InThread(in_a_block)
    else:
        call = InThread(troupe.play)
        hold_it()
        troupe.stop(timeout=0.05)
    try:
        assert call.join(20.0) is None  # in the time that the configs say, and not in the system's 30 s
        report = troupe.system.report
        assert report is not None
        assert report.forced == ("/worker/worker",)
        assert report.discarded_count == 1
        assert "/worker/worker holds the thread of pod worker and cannot be interrupted" in caplog.text
        assert "discarded 1 message" in caplog.text
        assert "asyncio holds the thread" not in caplog.text
        assert {name: one.phase for name, one in troupe.status.items()} == {
            "worker": PodPhase.TERMINATING,
            "other": PodPhase.COMPLETED,
        }
    finally:
        hold.release()
    assert_ledger_balanced(troupe.system)


@pytest.mark.parametrize("way", ["stop", "close", "with"])
def test_a_handler_that_holds_the_kubelets_thread_is_left_behind(way: str, caplog: pytest.LogCaptureFixture) -> None:
    hold = Hold()  # K16
    troupe = troupe_class(worker=Pod(doer(Diary()), thread=ThreadModel.COOPERATIVE, expose=True)).new(
        kubelet=KubeletConfig(drain_timeout=0.05), config=SystemConfig(stop_timeout=0.05)
    )
    worker = troupe.exposed().worker
    worker.send(hold)
    worker.send("behind")

    def in_a_block() -> None:
        with troupe:
            hold.wait()

    call = InThread(in_a_block if way == "with" else troupe.play)
    hold.wait()
    try:
        if way != "with":
            getattr(troupe, way)(timeout=0.05)
        assert call.join(20.0) is None
        report = troupe.system.report
        assert report is not None
        assert report.forced == ("/worker/worker",)
        assert report.discarded_count == 1
        assert "/worker/worker holds the thread" in caplog.text
    finally:
        hold.release()


def test_what_waits_behind_a_handler_that_was_left_behind_is_a_dead_letter_when_it_returns() -> None:  # K16
    diary, dead = Diary(), Diary()
    hold = Hold()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True)).new(config=SystemConfig(stop_timeout=0.05))
    troupe.system.dead_letters.subscribe(lambda letter: dead.write(letter.message))
    worker = troupe.exposed().worker
    worker.send(hold)
    for number in range(9):
        worker.send(number)
    call = InThread(troupe.play)
    hold.wait()
    troupe.stop(timeout=0.05)
    assert call.join(20.0) is None
    hold.release()
    entries = dead.wait(lambda written: len(written) + len(diary.entries) == 9)
    assert len(entries) >= 8  # one may be handled before its thread comes to the end
    assert_ledger_balanced(troupe.system)


def test_close_in_an_actor_or_a_coroutine_is_refused_and_says_what_to_do() -> None:  # K16
    diary = Diary()

    def close(actor: Any) -> None:
        with pytest.raises(WaitsForItself, match=r"use `stop\(\)` in an actor"):
            troupe.close()
        diary.write("refused")

    async def program() -> None:
        async with troupe:
            troupe.exposed().worker.send(close)
            with pytest.raises(WaitsForItself, match=r"`await troupe.shutdown\(\)` in a coroutine"):
                troupe.close()
            await asyncio.to_thread(diary.wait_for, "refused")

    troupe = troupe_class(worker=Pod(doer(diary), expose=True)).new(kubelet=PATIENT)
    asyncio.run(program())
    assert diary.entries == ["refused"]
    assert_over(troupe)


def test_close_in_a_main_loop_is_refused() -> None:  # K16
    def loop(main: MainLoop) -> None:
        with pytest.raises(WaitsForItself, match=r"use `stop\(\)` in an actor or a main loop"):
            troupe.close()

    troupe = troupe_class(worker=Pod(doer(Diary()))).new(kubelet=PATIENT)
    assert InThread(lambda: troupe.play(loop)).join() is None
    assert_over(troupe)


def flood_until_gone(handle: ServiceHandle, sent: list[int]) -> None:
    """Send until the pod is gone; only that may end it."""
    try:
        while True:
            handle.send(sent[0])
            sent[0] += 1
    except PodGone:
        pass


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("size", [2, 4096])
@pytest.mark.parametrize("mode", [ShutdownMode.IMMEDIATE, ShutdownMode.DRAIN_CONTROL], ids=lambda mode: mode.value)
def test_a_troupe_ends_under_a_flood_and_the_senders_are_told(
    mode: ShutdownMode, size: int, thread: ThreadModel
) -> None:  # K16
    for _ in range(5):
        diary, dead = Diary(), Diary()
        troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True, buffers=Buffers(data=size))).new(
            kubelet=PATIENT
        )
        troupe.system.dead_letters.subscribe(lambda letter, dead=dead: dead.write(letter.message))  # type: ignore[misc]
        with playing(troupe) as call:
            counts = [[0] for _ in range(4)]
            handles = [troupe.exposed().worker.clone() for _ in counts]
            floods = [
                InThread(lambda handle=handle, sent=sent: flood_until_gone(handle, sent))  # type: ignore[misc]
                for handle, sent in zip(handles, counts, strict=True)
            ]
            diary.wait_for_count(100)
            troupe.stop(mode)
            assert call.join() is None
            assert [flood.join() for flood in floods] == [None] * 4
        assert len(diary.entries) + len(dead.entries) == sum(sent for (sent,) in counts)


@pytest.mark.parametrize("mode", ShutdownMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("thread", [*ThreadModel][:3], ids=lambda thread: thread.value)
def test_an_actor_can_end_its_troupe(thread: ThreadModel, mode: ShutdownMode) -> None:  # K16
    diary = Diary()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True), other=Pod(doer(diary))).new(
        kubelet=PATIENT
    )
    troupe.exposed().worker.send(lambda actor: troupe.stop(mode))
    call = InThread(troupe.play)
    assert call.join() is None
    assert_over(troupe)
    assert all(one.phase is PodPhase.COMPLETED for one in troupe.status.values())


def test_an_actor_can_wait_for_nothing_of_the_end_of_its_troupe() -> None:  # K16
    diary = Diary()

    async def end(actor: Any) -> None:
        await troupe.shutdown(ShutdownMode.DRAIN_ALL)
        diary.write("requested")

    troupe = troupe_class(worker=Pod(doer(diary), expose=True)).new(kubelet=PATIENT)
    troupe.exposed().worker.send(end)
    assert InThread(troupe.play).join() is None
    assert diary.entries == ["requested"]
    assert_over(troupe)


def test_a_stop_that_comes_while_the_troupe_starts_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:  # K16
    for _ in range(30):
        diary = Diary()
        pods = {f"pod_{number}": Pod(doer(diary), expose=True) for number in range(4)}
        troupe = troupe_class(**pods).new(kubelet=PATIENT)
        troupe.exposed().pod_0.send(lambda actor, troupe=troupe: troupe.stop())
        assert InThread(troupe.play).join() is None
        assert_over(troupe)
        assert {one.phase for one in troupe.status.values()} == {PodPhase.COMPLETED}
    assert "failed" not in caplog.text


@pytest.mark.parametrize("messages", [0, 3])
def test_a_troupe_that_was_stopped_before_it_plays_is_over(messages: int) -> None:  # K16
    def stop() -> None:
        troupe.stop()
        with pytest.raises(PodGone):
            troupe.exposed().worker.clone().send("late")
        with pytest.raises(GreenroomError):
            troupe.play()

    troupe = troupe_class(worker=Pod(doer(Diary()), expose=True)).new(kubelet=PATIENT)
    for number in range(messages):
        troupe.exposed().worker.send(number)
    assert InThread(stop).join() is None
    assert_over(troupe)
    assert troupe.system.ledger().dead_lettered == messages
    assert troupe.status["worker"].phase is PodPhase.COMPLETED


@pytest.mark.parametrize("mode", ShutdownMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("thread", THREADS)
def test_a_failure_that_races_with_the_shutdown_hangs_nobody(thread: ThreadModel, mode: ShutdownMode) -> None:  # K16
    for number in range(40):
        diary = Diary()
        troupe = troupe_class(
            worker=Pod(doer(diary), thread=thread, expose=True), other=Pod(doer(diary), thread=thread, expose=True)
        ).new(kubelet=PATIENT)
        with playing(troupe) as call:
            worker = troupe.exposed().worker
            worker.send("begun")
            diary.wait_for("begun")
            clone = worker.clone()
            go = threading.Barrier(2)

            def fail(go: threading.Barrier = go, clone: ServiceHandle = clone) -> None:
                go.wait(PATIENCE)
                clone.send(fail_with(ValueError("bad")), lane=Lane.CONTROL)

            fails = InThread(fail)
            go.wait(PATIENCE)
            if number % 2:
                troupe.exposed().other.send("more")
            troupe.stop(mode)
            assert isinstance(fails.join(), PodGone | None)
            assert call.join() is None


DRAINS = [(ShutdownMode.DRAIN_CONTROL, Lane.CONTROL), (ShutdownMode.DRAIN_ALL, Lane.DATA)]


@pytest.mark.parametrize("backoff", [None, Backoff()], ids=["at once", "later"])
@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize(("mode", "lane"), DRAINS, ids=lambda value: getattr(value, "value", ""))
def test_a_pod_that_fails_while_its_troupe_drains_comes_back_for_what_waits(
    mode: ShutdownMode, lane: Lane, thread: ThreadModel, backoff: Backoff | None
) -> None:  # K16, K13
    diary = Diary()
    hold = Hold()
    troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True, buffers=ALL), other=Pod(doer(diary))).new(
        kubelet=KubeletConfig(max_restarts=None, backoff=backoff)
    )
    with playing(troupe) as call:
        worker = troupe.exposed().worker
        worker.send(hold)
        hold.wait()
        for number in range(3):
            worker.send(number, lane=lane)
            worker.send(fail_with(ValueError("bad")), lane=lane)
        worker.send("last", lane=lane)
        troupe.stop(mode, timeout=PATIENCE)
        hold.release()
        assert call.join() is None
    assert diary.entries == [0, 1, 2, "last"]
    assert troupe.status["worker"] == PodStatus(PodPhase.COMPLETED, None, 3)
    assert troupe.system.ledger().dead_lettered == 0


def test_a_pod_within_a_troupe_within_comes_back_for_what_waits_while_all_drains() -> None:  # K16, K15
    diary = Diary()
    hold = Hold()
    inner = troupe_class(worker=Pod(doer(diary), expose=True))
    troupe = troupe_class(inner=Pod(inner, expose=True)).new(kubelet=PATIENT)
    with playing(troupe) as call:
        worker = troupe.exposed().inner.worker
        worker.send(hold)
        hold.wait()
        worker.send(fail_with(ValueError("bad")))
        worker.send("last")
        troupe.stop(ShutdownMode.DRAIN_ALL, timeout=PATIENCE)
        hold.release()
        assert call.join() is None
    assert diary.entries == ["last"]
    assert {name: one.phase for name, one in troupe.status.items()} == {
        "inner": PodPhase.COMPLETED,
        "inner.worker": PodPhase.COMPLETED,
    }


def test_a_pod_that_comes_to_its_limit_while_its_troupe_drains_has_failed() -> None:  # K16, K13
    diary = Diary()
    hold = Hold()
    error = ValueError("bad")
    troupe = troupe_class(worker=Pod(doer(diary), expose=True)).new(kubelet=KubeletConfig(max_restarts=1))
    call = InThread(troupe.play)
    worker = troupe.exposed().worker
    worker.send(hold)
    hold.wait()
    for _ in range(2):
        worker.send(fail_with(error))
    worker.send("not handled")
    troupe.stop(ShutdownMode.DRAIN_ALL, timeout=PATIENCE)
    hold.release()
    failed = call.join()
    assert isinstance(failed, TroupeFailed)
    assert failed.__cause__ is error
    assert diary.entries == []
    assert assert_over(troupe).dead_lettered == 1


@pytest.mark.parametrize("thread", THREADS)
def test_the_last_failure_that_races_with_the_shutdown_is_told_or_is_not(thread: ThreadModel) -> None:  # K16, K13
    for _ in range(40):
        diary = Diary()
        troupe = troupe_class(worker=Pod(doer(diary), thread=thread, expose=True)).new(
            kubelet=KubeletConfig(max_restarts=0)
        )
        error = ValueError("bad")
        call = InThread(troupe.play)
        troupe.exposed().worker.send("begun")
        diary.wait_for("begun")
        troupe.exposed().worker.send(fail_with(error))
        troupe.stop(ShutdownMode.DRAIN_ALL)
        failed = call.join()
        if failed is not None:
            assert isinstance(failed, TroupeFailed)
            assert failed.__cause__ is error
        assert_over(troupe)


@pytest.mark.parametrize("mode", ShutdownMode, ids=lambda mode: mode.value)
def test_senders_that_wait_for_room_when_the_troupe_ends_are_let_go(mode: ShutdownMode) -> None:  # K16, K5
    diary = Diary()
    hold = Hold()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True, buffers=Buffers(data=2))).new(kubelet=PATIENT)
    with playing(troupe) as call:
        handles = [troupe.exposed().worker.clone() for _ in range(4)]
        troupe.exposed().worker.send(hold)
        hold.wait()
        counts = [[0] for _ in handles]
        full = threading.Barrier(len(handles) + 1)

        def fill(handle: ServiceHandle, sent: list[int]) -> None:
            while handle.try_send(sent[0]):
                sent[0] += 1
            full.wait(PATIENCE)
            flood_until_gone(handle, sent)

        senders = [
            InThread(lambda handle=handle, sent=sent: fill(handle, sent))  # type: ignore[misc]
            for handle, sent in zip(handles, counts, strict=True)
        ]
        full.wait(PATIENCE)
        troupe.stop(mode, timeout=1.0)
        if mode is ShutdownMode.IMMEDIATE:
            # The worker still holds its thread, and is not needed for that.
            assert [sender.join() for sender in senders] == [None] * len(senders)
        hold.release()
        assert [sender.join() for sender in senders] == [None] * len(senders)
        assert call.join() is None


@pytest.mark.parametrize("mode", ShutdownMode, ids=lambda mode: mode.value)
def test_a_handler_that_waits_for_room_when_the_troupe_ends_is_let_go(mode: ShutdownMode) -> None:  # K16, K5
    diary, told = Diary(), Diary()
    hold = Hold()

    def flood(actor: Any) -> None:
        while actor.peers.worker.try_send("fill"):
            pass
        told.write("full")
        try:
            while True:
                actor.peers.worker.send("more")
        except PodGone:
            told.write("gone")

    troupe = troupe_class(
        worker=Pod(doer(diary), expose=True, buffers=Buffers(data=2)), sender=Pod(doer(diary), expose=True)
    ).new(kubelet=PATIENT)
    with playing(troupe) as call:
        troupe.exposed().worker.send(hold)
        hold.wait()
        troupe.exposed().sender.send(flood)
        told.wait_for("full")
        troupe.stop(mode, timeout=1.0)
        hold.release()
        told.wait_for("gone")
        assert call.join() is None


def test_a_handler_that_is_refused_because_of_the_end_makes_it_no_failure() -> None:  # K16, K13
    for _ in range(10):
        diary, told = Diary(), Diary()

        def flood(actor: Any, told: Diary = told) -> None:
            told.write("begun")
            while True:
                actor.peers.worker.send("more")

        troupe = troupe_class(
            worker=Pod(doer(diary), expose=True, buffers=Buffers(data=2)),
            window=Pod(doer(diary), thread=ThreadModel.MAIN, expose=True),
        ).new(kubelet=PATIENT)
        troupe.exposed().window.send(flood)
        call = InThread(troupe.play)
        told.wait_for("begun")
        troupe.stop(ShutdownMode.IMMEDIATE)
        assert call.join() is None
        assert_over(troupe)


@pytest.mark.parametrize("mode", [ShutdownMode.IMMEDIATE, ShutdownMode.DRAIN_CONTROL], ids=lambda mode: mode.value)
@pytest.mark.parametrize("thread", [*ThreadModel][:3], ids=lambda thread: thread.value)
def test_an_actor_that_ends_its_troupe_and_sends_on_has_not_failed(thread: ThreadModel, mode: ShutdownMode) -> None:
    told = Diary()  # K16, K13

    def end(actor: Any) -> None:
        troupe.stop(mode)
        try:
            actor.peers.other.send("late")
        except PodGone as error:
            told.write(type(error))
            raise

    troupe = troupe_class(worker=Pod(doer(Diary()), thread=thread, expose=True), other=Pod(doer(Diary()))).new(
        kubelet=KubeletConfig(max_restarts=0)
    )
    troupe.exposed().worker.send(end)
    assert InThread(troupe.play).join() is None
    assert told.entries == [TroupeEnding]
    assert troupe.status["worker"].phase is PodPhase.COMPLETED
    assert assert_over(troupe).failed == 0


@pytest.mark.parametrize("main", [True, False])
def test_a_stop_at_any_moment_of_the_start_ends_the_troupe(main: bool) -> None:  # K16
    for number in range(60):
        troupe = troupe_class(
            one=Pod(doer(Diary()), thread=ThreadModel.MAIN if main else ThreadModel.DEDICATED), two=Pod(doer(Diary()))
        ).new(kubelet=PATIENT)
        go = threading.Barrier(2)

        def stop(go: threading.Barrier = go, troupe: Troupe[Any] = troupe, number: int = number) -> None:
            go.wait(PATIENCE)
            for _ in range(number * 50):
                pass
            troupe.stop()

        def play(go: threading.Barrier = go, troupe: Troupe[Any] = troupe) -> None:
            go.wait(PATIENCE)
            troupe.play()

        plays, stops = InThread(play), InThread(stop)
        assert stops.join() is None
        played = plays.join()
        assert played is None or (isinstance(played, SystemStopped) and "the troupe 'Studio'" in str(played))
        assert_over(troupe)


def test_an_exception_in_the_block_ends_the_troupe_at_once() -> None:  # K16
    diary = Diary()
    hold = Hold()
    made = troupe_class(worker=Pod(doer(diary), expose=True), other=Pod(doer(diary), expose=True))
    troupe = made.new(kubelet=PATIENT)

    def run() -> None:
        with troupe:
            worker = troupe.exposed().worker
            worker.send(hold)
            hold.wait()
            worker.send("not handled")
            raise KeyboardInterrupt

    call = InThread(run)
    hold.wait()
    assert send_until_gone(troupe.exposed().other, "more").message == "more"
    hold.release()
    assert isinstance(call.join(), KeyboardInterrupt)
    assert "not handled" not in diary.entries
    assert_over(troupe)


def test_while_control_is_drained_other_messages_are_refused_at_once() -> None:  # K16
    diary = Diary()
    hold = Hold()
    troupe = troupe_class(worker=Pod(doer(diary), expose=True), other=Pod(doer(diary), expose=True)).new(
        kubelet=PATIENT
    )
    with playing(troupe) as call:
        troupe.exposed().worker.send(hold)
        hold.wait()
        troupe.stop(ShutdownMode.DRAIN_CONTROL, timeout=PATIENCE)
        late = InThread(lambda: troupe.exposed().other.send("late"))
        control = InThread(lambda: troupe.exposed().other.clone().send("control", lane=Lane.CONTROL))
        refused = late.join()
        assert isinstance(refused, PodGone)
        assert refused.message == "late"
        assert control.join() is None
        hold.release()
        assert call.join() is None
    assert "control" in diary.entries


def test_handles_that_are_dropped_while_the_troupe_ends_hold_up_nobody() -> None:  # K16
    for _ in range(5):
        diary = Diary()
        stop = threading.Event()
        troupe = troupe_class(one=Pod(doer(diary), expose=True), two=Pod(doer(diary), expose=True)).new(kubelet=PATIENT)
        sources = [troupe.exposed().one.clone(), troupe.exposed().two.clone()]

        def make(source: ServiceHandle, stop: threading.Event = stop) -> None:
            while not stop.is_set():
                source.clone()

        with playing(troupe) as call:
            makers = [InThread(lambda source=source: make(source)) for source in sources]  # type: ignore[misc]
            troupe.exposed().one.send("begun")
            diary.wait_for("begun")
            troupe.stop()
            try:
                assert call.join() is None
            finally:
                stop.set()
            assert [maker.join() for maker in makers] == [None, None]


@pytest.mark.parametrize("who", ["/kubelet", "/worker"])
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_troupe_whose_kubelet_or_pod_is_ended_from_outside_does_not_go_on_for_ever_without(
    who: str, how: str
) -> None:
    diary = Diary()  # K7, K13
    troupe: Troupe[Any] = troupe_class(
        worker=Pod(doer(diary), expose=True), helper=Pod(doer(diary), thread=ThreadModel.COOPERATIVE, expose=True)
    ).new(kubelet=KubeletConfig(max_restarts=0, connect_timeout=3600.0))
    phases = Phases(troupe)
    with playing(troupe) as call:
        for pod in ("worker", "helper"):
            phases.wait(pod, PodPhase.RUNNING)
        ref = troupe.system.actor(who)
        assert ref is not None
        if who == "/worker":
            troupe.exposed().helper.send(finish)
            phases.wait("helper", PodPhase.COMPLETED)
        getattr(ref, how)()
        ended = call.join()
        assert isinstance(ended, TroupeFailed) if how == "kill" else isinstance(ended, TroupeFailed | None)
