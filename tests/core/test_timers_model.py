"""Timers against a list that is sorted whenever something is due."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom._core.timing.timers import Timer
from greenroom.clock import ManualClock


class Pending:
    """What the model knows of one timer."""

    def __init__(self, name: int, deadline: float, interval: float, fixed_rate: bool, place: int, owner: int) -> None:
        self.name = name
        self.deadline = deadline
        self.interval = interval
        self.fixed_rate = fixed_rate
        self.place = place  # in the order of starting
        self.owner = owner
        self.queued = False
        self.skipped = 0
        self.over = False


class TimersAgainstASortedList(RuleBasedStateMachine):
    """All times are multiples of 1/512 s, except that fixed-rate ones are never due exactly when the clock stops."""

    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.loop = Loop(None, self.clock)
        self.handled: list[object] = []
        self.cell = self.loop.spawn(list.append, self.handled)
        self.owners = [self.loop.spawn(list.append, self.handled) for _ in range(2)]
        self.model: list[Pending] = []
        self.queue: list[Pending] = []
        self.expected: list[object] = []
        self.dropped = 0
        self.held = False
        self.places = 0

    def place(self) -> int:
        self.places += 1
        return self.places

    @rule(
        target=running,
        delay=st.integers(0, 40),
        interval=st.sampled_from([0, 0, 0, 1, 3, 64]),
        fixed_rate=st.booleans(),
        owner=st.integers(0, 2),
    )
    def start(self, delay: int, interval: int, fixed_rate: bool, owner: int) -> tuple[Timer, Pending]:
        seconds = delay / 512 + (1 / 4096 if fixed_rate else 0.0)
        name = self.place()
        timer = self.loop.start_timer(
            seconds, self.cell, name, interval / 512, fixed_rate, self.owners[owner] if owner < 2 else None
        )
        pending = Pending(name, self.clock.now() + seconds, interval / 512, fixed_rate, name, owner)
        self.model.append(pending)
        return timer, pending

    @rule(handle=consumes(running))
    def cancel(self, handle: tuple[Timer, Pending]) -> None:
        timer, pending = handle
        assert timer.skipped == pending.skipped
        assert timer.cancel() is not pending.over
        pending.over = True

    @rule(owner=st.integers(0, 1))
    def end_owner(self, owner: int) -> None:
        self.loop.retire(self.owners[owner])
        self.owners[owner] = self.loop.spawn(list.append, self.handled)
        for pending in self.model:
            if pending.owner == owner:
                pending.over = True

    @precondition(lambda self: not self.held)
    @rule()
    def hold(self) -> None:
        self.cell.hold()
        self.held = True

    @precondition(lambda self: self.held)
    @rule()
    def release(self) -> None:
        self.cell.release()
        self.held = False
        self.loop.run_until_idle()
        self.settle()

    @rule(steps=st.integers(0, 60))
    def move(self, steps: int) -> None:
        self.clock.step(self.clock.now() + steps / 512)
        self.loop.run_until_idle()
        self.settle()

    def settle(self) -> None:
        """What the loop should do until nothing is due: queue by deadline and place, handle in that order."""
        now = self.clock.now()
        while True:
            self.model = [pending for pending in self.model if not pending.over]
            due = [pending for pending in self.model if not pending.queued and pending.deadline <= now]
            for pending in sorted(due, key=lambda pending: (pending.deadline, pending.place)):
                pending.queued = True
                self.queue.append(pending)
            if self.held or not self.queue:
                return
            queue, self.queue = self.queue, []
            for pending in queue:
                self.handle(pending, now)

    def handle(self, pending: Pending, now: float) -> None:
        if pending.over:
            self.dropped += 1
            return
        self.expected.append(pending.name)
        pending.queued = False
        pending.place = self.place()
        if pending.interval == 0:
            pending.over = True
        elif pending.fixed_rate:
            pending.deadline += pending.interval
            while pending.deadline < now:
                pending.deadline += pending.interval
                pending.skipped += 1
        else:
            pending.deadline = now + pending.interval

    @invariant()
    def the_same_ticks_in_the_same_order(self) -> None:
        assert self.handled == self.expected

    @invariant()
    def the_same_number_is_pending(self) -> None:
        waiting = [pending.deadline for pending in self.model if not pending.over and not pending.queued]
        assert self.loop.timers.count == len(waiting)
        earliest = self.loop.timers.next_deadline()
        if waiting:
            assert earliest is not None
            assert earliest <= min(waiting)
        else:
            assert earliest is None

    @invariant()
    def every_tick_is_accounted_for(self) -> None:
        counts = count_loop(self.loop)
        assert counts.balanced
        assert (counts.handled, counts.dropped) == (len(self.expected), self.dropped)


TimersAgainstASortedList.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTimersAgainstASortedList = TimersAgainstASortedList.TestCase
