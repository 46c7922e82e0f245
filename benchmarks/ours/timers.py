"""Many pending timers: start all, cancel every other one, let the rest fire as time goes by."""

from __future__ import annotations

import time
from enum import Enum, auto
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, dice, main, settle
from benchmarks.timescale import SPAN, STEPS, SteppedClock, Stopwatch
from greenroom import Actor, ActorRef, ActorSystem, SystemConfig, Timer

ALARMS = 1000


class Alarm(Actor[int, None]):
    """Counts what fires."""

    def __init__(self) -> None:
        self.fired = 0

    def receive(self, message: int) -> None:
        self.fired += 1


class Order(Enum):
    """What the keeper of the timers is told to do."""

    START = auto()
    CANCEL = auto()
    LOOK = auto()


class Keeper(Actor[Order, None]):
    """Starts all timers of its plan, and cancels every other one."""

    def __init__(self, plan: list[tuple[float, ActorRef[int, None]]]) -> None:
        self.plan = plan
        self.timers: list[Timer] = []

    def receive(self, order: Order) -> None:
        if order is Order.START:
            send_after = self.ctx.send_after
            self.timers = [send_after(delay, alarm, 1) for delay, alarm in self.plan]
        elif order is Order.CANCEL:
            for timer in self.timers[::2]:
                timer.cancel()


def run(n: int) -> Report:
    """``n`` timers over a minute, on a clock moved by hand; firing ends with the message handled."""
    clock = SteppedClock()
    return perform(partial(_tick, n, clock), config=SystemConfig(max_timers=n + 1, clock=clock))


async def _tick(n: int, clock: SteppedClock, system: ActorSystem) -> Report:
    alarms = [system.spawn(Alarm) for _ in range(ALARMS)]
    random = dice()
    plan = [(random.uniform(0.0, SPAN), alarms[number % ALARMS]) for number in range(n)]
    keeper = system.spawn(Keeper, plan)
    await system.settle()
    settle()

    watch = Stopwatch(time.perf_counter)
    keeper.tell(Order.START)
    await system.settle()
    watch.lap("start")
    keeper.tell(Order.CANCEL)
    await system.settle()
    watch.lap("cancel")
    for _ in range(STEPS):
        clock.move(SPAN / STEPS)
        # A system sleeps through real time, and does not see this clock move: a message makes it look.
        keeper.tell(Order.LOOK)
        await system.settle()
    watch.lap("fire")

    orders = 2 + STEPS
    await expect_all_handled(system, orders + n // 2)
    return watch.report(n)


if __name__ == "__main__":
    main(run)
