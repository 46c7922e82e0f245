"""Many pending timers: start all, cancel every other one, let the rest fire as time goes by."""

from __future__ import annotations

import time

from benchmarks.program import Report, dice, expect, main, settle
from benchmarks.timescale import SPAN, STEPS, SteppedClock, Stopwatch
from greenroom._core.limits import Limits
from greenroom._core.loop import Loop

CELLS = 1000


class Alarm:
    """Counts what fires."""

    def __init__(self) -> None:
        self.fired = 0

    def receive(self, message: object) -> None:
        self.fired += 1


def run(n: int) -> Report:
    """``n`` timers over a minute, on a clock moved by hand; firing ends with the message handled."""
    clock = SteppedClock()
    loop = Loop(limits=Limits(max_timers=n + 1), clock=clock)
    alarms = [Alarm() for _ in range(CELLS)]
    cells = [loop.spawn(Alarm.receive, alarm) for alarm in alarms]
    random = dice()
    plan = [(random.uniform(0.0, SPAN), cells[number % CELLS]) for number in range(n)]
    settle()

    watch = Stopwatch(time.perf_counter)
    timers = [loop.start_timer(delay, cell, 1) for delay, cell in plan]
    watch.lap("start")
    for timer in timers[::2]:
        timer.cancel()
    watch.lap("cancel")
    for _ in range(STEPS):
        clock.move(SPAN / STEPS)
        loop.run_until_idle()
    watch.lap("fire")

    expect("timers fired", sum(alarm.fired for alarm in alarms), n // 2)
    return watch.report(n)


if __name__ == "__main__":
    main(run)
