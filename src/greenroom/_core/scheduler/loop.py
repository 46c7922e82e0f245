"""The loop: takes in what time and other threads bring, has runnable cells visited, and stays within its budgets.

A *tick* takes in foreign messages and due timers, then has *visits* made: to each runnable cell in turn, up to
`max_msgs_per_actor` messages each, `max_actors_per_tick` visits in all, and no message begun after `max_tick_time`, but
for three that follow a quick one. The rest of the thread's time belongs to asyncio, which the poller hands it back to.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED
from greenroom._core.connections.connection import ShardedInbox
from greenroom._core.current import begin_tick, end_tick
from greenroom._core.delivery.admission import Admission
from greenroom._core.delivery.inbound import Inbound
from greenroom._core.delivery.propagation import Propagation
from greenroom._core.flags import OFFLOADED, ORDERS, PROPAGATES
from greenroom._core.itemkinds import ORDERED
from greenroom._core.limits import Limits
from greenroom._core.mailbox.cell import ENDED, ENDED_IN_HAND, Cell
from greenroom._core.mailbox.mailbox import Mailbox
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.runqueue import RunQueue
from greenroom._core.scheduler.celltable import CellTable, SlotBlocks
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.visits import Visits
from greenroom._core.timing.tickbudget import TickBudget
from greenroom._core.timing.timers import SHORTEST_INTERVAL, Alarm, ScheduledCall, Timer, Timers
from greenroom._core.world import World, world_here
from greenroom.clock import Clock
from greenroom.errors import InvalidDelay, LoopStopped, WaitsForItself, WrongLoop, WrongThread
from greenroom.lanes import Lane, MailboxConfig
from greenroom.validation import LONGEST_DELAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom._core.handoff.handoff import Handoff
    from greenroom._core.handoff.messages import MessageHandoff
    from greenroom._core.simulation.director import Director
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.actor.offload.executor import OffloadedPipe
    from greenroom.system.dispatchers.processes.pool.executor import RemoteMessages
    from greenroom.system.dispatchers.processes.pool.worker import Worker

_DEFAULT_MAILBOX = MailboxConfig()


class Loop:
    """The scheduler of one thread. Everything but `Cell.tell`, `post`, `notify` and `order` belongs to that thread."""

    def __init__(
        self,
        limits: Limits | None = None,
        clock: Clock | None = None,
        host: Host | Lifecycle | None = None,
        hooks: ObserverHooks | None = None,
        propagation: Propagation | None = None,
        blocks: SlotBlocks | None = None,
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self.world: World = world_here()
        # Decides on a message's way. Invariant: the world itself, unless that is the machine's; then None
        self._director: Director | None = None if self.world.is_real else self.world  # type: ignore[assignment]
        self.clock: Clock = self.world.clock_for(clock)
        # `Host` is what the loop asks of it; the floor above has more to ask of its own.
        self.host: Any = Host() if host is None else host
        self.hooks = ObserverHooks() if hooks is None else hooks
        self.tick_budget = TickBudget(self.clock, self.limits.max_tick_time)
        self.runq = RunQueue(get_ident())
        # A further loop of a system has the blocks of the first, and its observers.
        self.world.adopt(self, is_first=blocks is None)
        # One like those of the cells that were spawned last: it knows what their config says.
        self._mailbox = Mailbox(_DEFAULT_MAILBOX)
        self.table = CellTable(self.limits.max_actors, blocks)
        self.timers = Timers(self.runq, self.tick_budget, self.limits.max_timers)
        self.admission = Admission(self.host, self.hooks, self._director, propagation)
        # Whether the quick way into its mailboxes is shut: each message is looked at.
        self.is_guarded = self._director is not None or propagation is not None
        self.inbound = Inbound(self.admission)
        self.admission.inbound = self.runq.inbound = self.inbound
        self.runq.admission = self.admission
        self.visits = Visits(
            self.runq, self.admission, self.tick_budget, self.limits.max_msgs_per_actor, self.limits.max_actors_per_tick
        )
        # What is connected to groups of cells by rings; None while there is none.
        self.inboxes: list[ShardedInbox] | None = None
        self.closed = False
        # Invariant: the work that other threads do for cells of this loop, and that has not completed
        self.handoffs: dict[Handoff, None] = {}
        # Of those, the ones that handle messages, by their cells: for any thread to look up.
        self.carried: dict[Cell, MessageHandoff | RemoteMessages] = {}
        # Others that may be at work for the loop. Kept only for a clock that is turned by hand, which waits for them.
        self.helpers: dict[OffloadedPipe | Worker, None] = {}
        # What cells that have ended were sent, and had handled by then.
        self.ended_sent = 0
        self.ended_handled = 0
        self.ticking = False
        # How many ticks there have been; a watchdog sees by it whether one does not end.
        self.ticks = 0

    def now(self) -> float:
        return self.tick_budget.now()

    def adopt(self) -> None:
        """Make the calling thread the loop's own; nothing may be under way on the old one."""
        if self.ticking:
            raise WrongThread("a loop in the middle of a tick")
        self.runq.thread = get_ident()

    def step_aside(self) -> None:
        """Belong to no thread until `adopt` or `come_back`: while another world has this one."""
        self.runq.thread = 0

    def come_back(self) -> None:
        """Belong to the calling thread again, after `step_aside`; in a tick too."""
        self.runq.thread = get_ident()

    def _require_own_thread(self, what: str) -> None:
        if (COMPILED and thread_ident() != self.runq.thread) or (not COMPILED and get_ident() != self.runq.thread):
            raise WrongThread(what)

    def _require_own(self, cell: Cell) -> None:
        if cell.runq is not self.runq:
            raise WrongLoop(cell.shown())

    def spawn(
        self,
        handler: Any,
        subject: object = None,
        mailbox: MailboxConfig | None = None,
        exempt: bool = False,
    ) -> Cell:
        """A new cell whose messages are handled by `handler(subject, message)`."""
        self._require_own_thread("spawn()")
        if self.closed:
            raise LoopStopped("this loop has stopped: nothing can be spawned on it any more")
        config = _DEFAULT_MAILBOX if mailbox is None else mailbox
        if self._mailbox.config is not config:
            self._mailbox = Mailbox(config)
        cell = new_object(Cell) if COMPILED else Cell.__new__(Cell)
        cell.set_up(self, self.runq, handler, subject, self._mailbox)
        if self.is_guarded:
            self._guard(cell)
        if self.table.counted >= self.runq.mask:
            self.runq.make_room(self.table.counted + 1)
        self.table.add(cell, exempt)
        return cell

    def _guard(self, cell: Cell) -> None:
        cell.limit = 0
        if self.admission.propagation is not None:
            cell.flags |= PROPAGATES
        if self._director is not None:
            self._director.meets(cell)

    def retire(self, cell: Cell, why: str = "stopped") -> None:
        """End `cell`: its timers end, what waits for it becomes dead letters, its id is never used again."""
        self._require_own_thread("retire()")
        self._require_own(cell)
        if cell.ending:
            return
        cell.ending = True
        cell.close()
        cell.orders = None
        cell.flags &= ~ORDERS
        if cell.flags & OFFLOADED and cell.task is not None and self.visits.hand is not cell:
            self.visits.abandon(cell)  # before what is queued goes: some of that may have been handled
        try:
            self.cancel_timers(cell)
            self.admission.clear(cell, why)
            # An order that ends its own cell has nothing to be cancelled for.
            if cell.task is not None and not (self.visits.hand is cell and self.visits.kind == ORDERED):
                if self.visits.stepper.aio is not None:
                    cell.task.cancel()
                elif self.visits.hand is not cell:  # else it is running, and ends by itself
                    self.visits.abandon(cell)
        finally:
            self.table.remove(cell)
            self._close_account(cell)

    def _close_account(self, cell: Cell) -> None:
        self.ended_sent += cell.pushed - cell.noticed
        self.ended_handled += cell.handled
        if self.visits.in_hand(cell):
            self.visits.ended_in_hand += 1
            cell.ended = ENDED_IN_HAND
        else:
            cell.ended = ENDED

    def start_timer(
        self,
        delay: float,
        target: Cell,
        message: object,
        interval: float = 0.0,
        fixed_rate: bool = False,
        owner: Cell | None = None,
    ) -> Timer:
        """Send `message` to `target` after `delay` seconds, and every `interval` after that; it ends with `owner`."""
        if not 0.0 <= delay <= LONGEST_DELAY:
            raise InvalidDelay("delay", delay)
        if interval != 0.0 and not SHORTEST_INTERVAL <= interval <= LONGEST_DELAY:
            raise InvalidDelay("interval", interval)
        self._require_own_thread("start_timer()")
        if owner is not None:
            self._require_own(owner)
        if self.closed:
            raise LoopStopped("this loop has stopped: no timer can be started on it any more")
        self.timers.require_room()
        now = self.now()
        if interval > 0.0 and now + interval == now:  # too short for this clock to tell
            raise InvalidDelay("interval", interval)
        timer = Timer.__new__(Timer)
        timer.set_up(self.timers, target, message, now + delay, interval, fixed_rate, owner)
        if target.flags & PROPAGATES and self.admission.propagation is not None:
            timer.propagate(self.admission.propagation.values())
        self.timers.add(timer)
        if owner is not None and owner.ending:
            timer.cancel()
        if self.runq.asleep:
            self.runq.wake()  # to sleep again, but not past this deadline
        return timer

    def call_at(self, deadline: float, function: Callable[[], object]) -> ScheduledCall:
        """Have `function` called at `deadline`, by the loop's clock and on its thread. For the loop's thread."""
        call = ScheduledCall(self.timers, function)
        self.set_alarm(call, deadline)
        return call

    def call_later(self, seconds: float, function: Callable[[], object]) -> ScheduledCall:
        return self.call_at(self.now() + seconds, function)

    def set_alarm(self, alarm: Alarm, deadline: float) -> None:
        """Have `alarm` ring at `deadline`, also if the loop sleeps."""
        alarm.set_up_alarm(deadline)
        self.timers.add(alarm)
        if self.runq.asleep:
            self.runq.wake()  # to sleep again, but not past this deadline

    def cancel_timers(self, cell: Cell) -> None:
        while cell.timers is not None:
            cell.timers.cancel()

    def tick(self) -> None:
        """Take in what has come, and visit cells until the budgets are spent or none is runnable."""
        self._require_own_thread("tick()")
        if self.ticking:
            raise WaitsForItself("a handler cannot run the loop that runs it: return, and the loop goes on")
        self.ticking = True
        self.ticks += 1
        outer = begin_tick(self.runq)
        try:
            now = self.tick_budget.begin()
            takes_in = self.inbound.waiting() and (self._director is None or not self._leaves_brought())
            if takes_in:
                self.inbound.take_in()
            if self.timers.count > 0:
                self._fire_due(now)
            if self.inboxes is None:
                self.visits.make(now)
            else:
                self._serve_inboxes(now, takes_in or not self.inbound.waiting())
        finally:
            end_tick(outer)
            self.ticking = False

    def _serve_inboxes(self, now: float, takes_in: bool) -> None:
        """Make visits, with bursts from the inboxes between, as long as there is time for them."""
        inboxes: list[ShardedInbox] = self.inboxes  # type: ignore[assignment]
        if takes_in:
            self.inbound.clear_bell()
            for inbox in inboxes:
                inbox.step()
        while True:
            self.visits.make(now)
            if not takes_in:
                return
            if self.tick_budget.spent():
                for inbox in inboxes:
                    inbox.is_stalled = False  # there may be room again
                break
            moved = 0
            for inbox in inboxes:
                moved += inbox.step()
            if moved == 0:
                break
        for inbox in inboxes:
            if inbox.waits():
                self.inbound.ring_bell()

    def connect_inbox(self, bursts: Mapping[Lane, int]) -> ShardedInbox:
        """A new inbox for cells of this loop. Before it runs, or on its own thread."""
        inbox = ShardedInbox(self.inbound, self.admission, bursts)
        # A list of its own each time: a tick may be going over the old one.
        self.inboxes = [*(self.inboxes or ()), inbox]
        return inbox

    def queued_in_rings(self, cell: Cell | None = None) -> int:
        """How many messages were sent by way of rings, to `cell` or in all, and not moved yet. From any thread."""
        return 0 if self.inboxes is None else sum(inbox.queued(cell) for inbox in self.inboxes)

    def _leaves_brought(self) -> bool:
        """Whether what was brought waits for the next tick, as if it had come in the midst of this one."""
        return self.runq.count > 0 and self._director.leaves_brought()  # type: ignore[union-attr]

    def _fire_due(self, now: float) -> None:
        fired = 0
        timer = self.timers.pop_due(now)
        while timer is not None:
            timer.ring(self.admission)
            fired += 1
            if fired % 64 == 0 and self.tick_budget.spent():
                return
            timer = self.timers.pop_due(now)

    def run_until_idle(self) -> None:
        """Tick on this thread until nothing is queued or due now; for ever, if handlers keep themselves busy."""
        self.tick()
        while self.has_work():
            self.tick()

    def has_work(self) -> bool:
        """Whether a tick would find something to do now."""
        if self.runq.count > 0 or self.inbound.waiting():
            return True
        deadline = self.timers.next_deadline()
        return deadline is not None and deadline <= self.now()

    def close(self) -> None:
        """End every cell and timer and take nothing more. What other threads send from now on is a dead letter."""
        self._require_own_thread("close()")
        if self.closed:
            return
        self.closed = True
        self.inbound.close()
        for inbox in self.inboxes or ():
            inbox.end("loop stopped")
        while self.inbound.has_entries():
            self.inbound.take_in()
        self.inbound.end()
        failures: list[BaseException] = []
        for cell in list(self.table):
            try:
                self.retire(cell, "loop stopped")
            except BaseException as exc:
                failures.append(exc)
        self.inbound.settle()
        self.timers.clear()
        if failures:
            raise failures[0]
