"""A busy loop and the other threads of the process: they get the GIL in the time that the interpreter promises."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from greenroom._core.scheduler import poller as polling
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller

if TYPE_CHECKING:
    from tests.core.conftest import Run

STEP = 0.001
INTERVAL = 0.005
MESSAGES = 100
HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()


class HandClock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        """The time."""
        return self.time


class Handed:
    """Counts how often the GIL was given up for long enough."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        monkeypatch.setattr(polling, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        """Called instead of `time.sleep`."""
        assert 0.0 < seconds < INTERVAL
        self.times += 1


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handed]:
    """With the switch interval that interpreters start with."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(INTERVAL)
    yield Handed(monkeypatch)
    sys.setswitchinterval(before)


@pytest.fixture
def other() -> Iterator[threading.Thread]:
    """Another thread."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield thread
    end.set()
    thread.join()


async def play(clock: HandClock, rests: bool) -> None:
    """A hundred messages; with a sleep after each, or none."""
    loop = Loop(clock=clock)
    poller = Poller(loop)
    poller.attach()

    def handle(left: list[int], message: Any) -> None:
        clock.time += STEP
        left[0] -= 1
        if left[0] and not rests:
            cell.tell(message)

    left = [MESSAGES]
    cell = loop.spawn(handle, left)
    cell.tell("go on")
    await poller.idle()
    while left[0]:
        cell.tell("go on")
        await poller.idle()
    poller.detach()


@pytest.mark.skipif(not HAS_GIL, reason="there is no GIL")
@pytest.mark.usefixtures("other")
def test_a_busy_loop_gives_it_up_once_in_each_switch_interval(run: Run, handed: Handed) -> None:
    run.bare(lambda: play(HandClock(), rests=False))
    assert 10 <= handed.times <= 20  # ticks of two or three milliseconds, so once in six or seven


@pytest.mark.usefixtures("other")
def test_one_that_sleeps_again_and_again_need_not(run: Run, handed: Handed) -> None:
    run.bare(lambda: play(HandClock(), rests=True))
    assert handed.times == 0


def test_nor_does_one_without_other_threads(run: Run, handed: Handed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "active_count", lambda: 1)  # the test runner has some
    run.bare(lambda: play(HandClock(), rests=False))
    assert handed.times == 0


@pytest.mark.skipif(HAS_GIL, reason="there is a GIL")
@pytest.mark.usefixtures("other")
def test_nor_does_any_where_there_is_no_gil(run: Run, handed: Handed) -> None:
    run.bare(lambda: play(HandClock(), rests=False))
    assert handed.times == 0
