"""`park()` and `poll_once()`: what an actor does when it is done, and programs with a main loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from functools import partial
from itertools import repeat
from typing import Any

import pytest

from greenroom import Actor, Props, props
from greenroom.errors import BadArgument, WaitsForItself, WrongThread
from greenroom.pods import (
    KubeletConfig,
    MainLoop,
    Park,
    Pod,
    PodPhase,
    RestartPolicy,
    ShutdownMode,
    ThreadModel,
    TroupeFailed,
)
from tests.pods.troupes import Diary, Hold, InThread, Phases, assert_over, doer, troupe_class

THREADS = (ThreadModel.DEDICATED, ThreadModel.COOPERATIVE, ThreadModel.MAIN)


class Parker(Actor[Any, None]):
    """Says what it is told to when it parks; at the end, nothing."""

    def __init__(self, diary: Diary, says: Iterable[Any]) -> None:
        self.diary = diary
        self.says = iter(says)

    def receive(self, message: Any) -> Any:
        if isinstance(message, Hold):
            message(self)
        self.diary.write(message)
        if message == "end":
            self.ctx.stop()

    def park(self) -> Any:
        self.diary.write("park")
        said = next(self.says, Park.IDLE)
        if isinstance(said, Exception):
            raise said
        return said


class AsyncParker(Parker):
    async def park(self) -> Any:
        return Parker.park(self)


def parker(diary: Diary, *says: Any, kind: type[Parker] = Parker) -> Props[Any, None]:
    return props(kind, diary, list(says))


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("kind", [Parker, AsyncParker])
def test_an_actor_is_told_when_it_has_handled_what_there_was(thread: ThreadModel, kind: type[Parker]) -> None:  # K6
    diary = Diary()
    troupe = troupe_class(one=Pod(parker(diary, kind=kind), thread=thread, expose=True)).new()
    for number in range(3):
        troupe.exposed().one.send(number)
    call = InThread(troupe.play)
    diary.wait(lambda written: written.count("park") >= 1 and 2 in written)
    diary.wait(lambda written: written[-1] == "park")
    troupe.exposed().one.clone().send("end")
    assert call.join() is None
    assert_over(troupe)


def test_who_is_busy_is_called_again_and_who_is_idle_is_not() -> None:  # K6
    diary = Diary()
    with troupe_class(one=Pod(parker(diary, Park.BUSY, Park.BUSY, Park.IDLE), expose=True)).new() as troupe:
        diary.wait(lambda written: len(written) >= 3)
        troupe.system.settle_sync()
        assert diary.entries == ["park"] * 3
        troupe.exposed().one.send("more")
        diary.wait(lambda written: written == ["park"] * 3 + ["more", "park"])


def test_messages_come_between_two_calls_of_one_that_is_busy() -> None:  # K6
    diary = Diary()
    with troupe_class(one=Pod(lambda: Parker(diary, repeat(Park.BUSY)), expose=True)).new() as troupe:
        troupe.exposed().one.send("a message")
        diary.wait_for("a message")


@pytest.mark.parametrize("says", [Park.BUSY, 0], ids=repr)
@pytest.mark.parametrize("thread", [ThreadModel.DEDICATED, ThreadModel.COOPERATIVE])
def test_one_that_would_always_be_called_again_does_not_hold_up_the_end(thread: ThreadModel, says: Any) -> None:  # K16
    diary = Diary()
    pod = Pod(lambda: Parker(diary, repeat(says)), thread=thread, expose=True)
    with troupe_class(one=pod).new(kubelet=KubeletConfig(drain_timeout=3600.0)) as troupe:
        diary.wait_for_count(2)
        troupe.exposed().one.send("the last message")
    assert [entry for entry in diary.entries if entry != "park"] == ["the last message"]


def test_what_is_handled_while_the_troupe_ends_is_parked_after() -> None:  # K6 K16
    diary, hold = Diary(), Hold()
    troupe = troupe_class(one=Pod(parker(diary), expose=True)).new(kubelet=KubeletConfig(drain_timeout=3600.0))
    with troupe:
        diary.wait_for("park")
        troupe.exposed().one.send(hold)
        hold.wait()
        troupe.exposed().one.send("the last message")
        troupe.stop(ShutdownMode.DRAIN_ALL)
        hold.release()
    assert diary.entries[-2:] == ["the last message", "park"]


def test_who_names_a_time_is_called_again_after_it() -> None:  # K6
    diary = Diary()
    with troupe_class(one=Pod(parker(diary, 0.001, 0, None), expose=True)).new():
        diary.wait(lambda written: written == ["park"] * 3)


def test_who_names_no_end_of_time_is_not_called_before_the_next_message() -> None:  # K6
    diary = Diary()
    troupe = troupe_class(one=Pod(parker(diary, float("inf"), float("inf")), expose=True)).new()
    with troupe:
        troupe.exposed().one.send("a")
        diary.wait(lambda written: written[-1:] == ["park"] and "a" in written)
        troupe.exposed().one.send("b")
        diary.wait(lambda written: written[-1:] == ["park"] and "b" in written)
    assert_over(troupe)


@pytest.mark.parametrize("bad", [ValueError("no"), "sometimes", -1, True], ids=repr)
def test_a_park_that_raises_or_says_what_means_nothing_is_a_failure(bad: Any) -> None:  # K6
    diary = Diary()
    troupe = troupe_class(one=Pod(parker(diary, bad), restart=RestartPolicy.NEVER)).new()
    phases = Phases(troupe)
    assert InThread(troupe.play).join() is None
    assert phases.wait("one", PodPhase.FAILED).reason is not None


def test_a_restarted_pod_parks_again() -> None:
    diary, makes = Diary(), iter([[ValueError("no")], []])
    troupe = troupe_class(one=Pod(lambda: Parker(diary, next(makes)), expose=True)).new()
    phases = Phases(troupe)
    with troupe:
        phases.wait("one", PodPhase.RUNNING, restarts=1)
        diary.wait(lambda written: written.count("park") == 2)


# -- a main loop of the program's own


def polling(main: MainLoop) -> None:
    """What a GUI's timer does."""
    while not main.is_over:
        main.poll_once()


def test_a_program_with_a_main_loop_polls_the_main_pod() -> None:  # K3 K6
    diary = Diary()
    troupe = troupe_class(
        window=Pod(parker(diary), thread=ThreadModel.MAIN, expose=True),
        beside=Pod(parker(Diary()), expose=True),
    ).new()
    for message in ("a", "b", "end"):
        troupe.exposed().window.send(message)
    threads: list[int] = []

    def loop(main: MainLoop) -> None:
        threads.append(threading.get_ident())
        polling(main)

    call = InThread(lambda: troupe.play(loop))
    assert call.join() is None
    assert threads == [call.thread.ident]
    assert [one for one in diary.entries if one != "park"] == ["a", "b", "end"]
    assert_over(troupe)


def test_a_troupe_ends_when_the_main_loop_returns() -> None:
    troupe = troupe_class(one=Pod(parker(Diary()), expose=True)).new()
    assert InThread(lambda: troupe.play(lambda main: None)).join() is None
    assert_over(troupe)


def test_a_troupe_fails_with_what_the_main_loop_raises() -> None:
    def broken(main: MainLoop) -> None:
        raise ValueError("no display")

    troupe = troupe_class(one=Pod(parker(Diary()), expose=True)).new()
    error = InThread(lambda: troupe.play(broken)).join()
    assert isinstance(error, TroupeFailed)
    assert repr(error.__cause__) == "ValueError('no display')"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_main_loop_that_ends_the_program_ends_the_troupe_first(error: BaseException) -> None:
    diary = Diary()

    def leave(main: MainLoop) -> None:
        diary.wait_for("begun")
        raise error

    troupe = troupe_class(one=Pod(parker(diary), expose=True)).new()
    troupe.exposed().one.send("begun")
    assert InThread(lambda: troupe.play(leave)).join() is error
    assert_over(troupe)
    assert troupe.system.report is not None
    assert troupe.system.report.cause is None


def test_a_main_loop_is_a_plain_function() -> None:
    async def loop(main: MainLoop) -> None: ...

    troupe = troupe_class(one=Pod(parker(Diary()), expose=True)).new()
    wrong: tuple[Any, ...] = (loop, "loop")
    for one in wrong:
        with pytest.raises(BadArgument, match="must be a plain function"):
            troupe.play(one)


def test_only_the_main_loops_thread_can_poll_and_not_from_within() -> None:  # K6
    told: list[BaseException | None] = []

    def loop(main: MainLoop) -> None:
        told.append(InThread(main.poll_once).join())
        troupe.exposed().window.send(partial(poll, main))
        while len(told) < 2:
            main.poll_once()

    def poll(main: MainLoop, actor: Any) -> None:
        try:
            main.poll_once()
        except WaitsForItself as error:
            told.append(error)

    troupe = troupe_class(window=Pod(doer(Diary()), thread=ThreadModel.MAIN, expose=True)).new()
    assert InThread(lambda: troupe.play(loop)).join() is None
    assert [type(one) for one in told] == [WrongThread, WaitsForItself]


def test_polling_in_a_coroutine_is_refused_and_breaks_nothing() -> None:  # K6
    told: list[BaseException] = []

    def loop(main: MainLoop) -> None:
        kept.append(main)

        async def poll() -> None:
            try:
                main.poll_once()
            except WaitsForItself as error:
                told.append(error)

        asyncio.run(poll())
        main.poll_once()

    kept: list[MainLoop] = []
    troupe = troupe_class(window=Pod(doer(Diary()), thread=ThreadModel.MAIN, expose=True)).new()

    def play() -> None:
        troupe.play(loop)
        assert kept[0].poll_once() is Park.IDLE  # a timer that comes late

    assert InThread(play).join() is None
    assert len(told) == 1


def test_polling_says_whether_there_is_more_to_do_and_never_waits() -> None:  # K6
    said: list[Park] = []
    troupe = troupe_class(window=Pod(parker(Diary()), thread=ThreadModel.MAIN, expose=True)).new()

    def loop(main: MainLoop) -> None:
        while Park.IDLE not in said[-1:]:
            said.append(main.poll_once())
        said.append(main.poll_once())

    assert InThread(lambda: troupe.play(loop)).join() is None
    assert said[-1] is Park.IDLE
