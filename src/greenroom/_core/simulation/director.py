# cython: boundscheck=False, wraparound=False
"""The world of a simulation: a schedule makes every choice there, and all that happens is written down.

In a loop of this world the quick ways are shut (`Mailbox.limit` is 0, and every visit looks), so the director sees each
message as it is sent and as it is taken.

**The log** is flat, six entries for each event, so that no object is made for one; events are made of it when it is
read. When it is as long as it may be, each new event takes the place of the oldest. **The fingerprint** covers all
events, forgotten or not: two runs with the same one did the same things in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from greenroom._core.build import COMPILED
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt
from greenroom._core.runqueue import RunQueue
from greenroom._core.simulation.events import (
    ANSWERED,
    DEAD_LETTER,
    DECLINED,
    DROPPED,
    ENTRIES,
    ESCALATED,
    FAILED,
    FULL,
    REFUSED,
    RESTARTED,
    STARTED,
    STOPPED,
    TAKEN,
    TICKED,
    TOLD,
)
from greenroom._core.simulation.schedules import Schedule
from greenroom._core.world import VirtualClock, World
from greenroom.clock import Clock, MonotonicClock
from greenroom.errors import SimulationRefused

if TYPE_CHECKING:
    from collections.abc import Sized

    from greenroom._core.scheduler.loop import Loop
    from greenroom.lanes import Lane
    from greenroom.system.config import SystemConfig

PRIME = 0x9E3779B97F4A7C15
ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF
_DEEPEST = 3
_A_FEW = 8
"""Causes of an exception that are looked at, and faults that are known again."""
_MANY = 64
"""Exceptions that are kept for the user: they hold what their frames do, and one is enough."""
_BLANK = (None,) * ENTRIES
BROUGHT = "what was brought"
"""What was chosen at a step that decided whether it is taken in, in the place of an actor or a virtual thread."""

_CORES = 4
"""Loops of a system that is to have one for each core: as many on every machine."""


class Interceptor:
    """What comes between in a simulation: the director calls it for each cell, message, notice and step."""

    def meets(self, cell: Cell) -> None:
        """A cell is made, of which nothing has run yet. Whether it becomes an actor is decided after this."""

    def approaches(self, cell: Cell) -> None:
        """Room in a mailbox is looked for."""

    def holds(self, cell: Cell, message: object, sender: object, lane: Lane, by_timer: bool) -> bool:
        """A message is sent: True if it is delivered later instead."""
        return False

    def holds_notice(self, cell: Cell, notice: object) -> bool:
        """A notice is sent: True if it is delivered later instead."""
        return False

    def handle(self, cell: Cell, message: object) -> object:
        """Have a message handled."""
        return cell.handler(cell.subject, message)

    def hook_raised(self, cell: Cell, name: str, cause: BaseException) -> None:
        """A hook raised, which does not change what happens to its actor."""

    def after_step(self, step: int) -> None:
        """A step has ended."""

    def lets_handle(self, loop: Loop) -> bool:
        """Whether the actors of `loop` run the user's code."""
        return True

    def is_on_the_way(self, loop: Loop) -> bool:
        """Whether a message to an actor of `loop` is held."""
        return False

    def close(self) -> None:
        """The simulation is over: refer to nothing of it any more."""


class Director(World):
    """Decides and records for all loops of one simulation. `faults`, when set, comes between.

    It is also the first observer of each system.
    """

    def __init__(self, schedule: Schedule, clock: VirtualClock, seed: int, keep: int, max_steps: int) -> None:
        self.is_real = False
        self.threads = None
        self.schedule = schedule
        self.clock = clock
        self.seed = seed
        # Visits to actors, counted from 1; there is none after the last step.
        self.step = 0
        self.max_steps = self.last_step = max_steps
        # The number of the actor that last handled a message.
        self.last_actor = -1
        self.loops: list[Any] = []
        # What asyncio has to do; set by `Simulation`.
        self.outside: Sized = ()
        # Whether there are several virtual threads now.
        self.has_threads = False
        self.faults: Interceptor | None = None
        # What the schedule does otherwise than the real loop, if that is recorded: step to position, budget and
        # pause, as `Scripted` takes it.
        self.choices: dict[int, tuple[int, int, int]] | None = None
        # Whom it visited at those steps, or which virtual thread went on.
        self.visited: dict[int, Cell | str] = {}
        self._chosen: Cell | str | None = None
        # What an actor tried that a simulation refuses: its supervision would make that go unseen.
        self.refused: SimulationRefused | None = None
        # Exceptions of the `fatal` kinds that were never retrieved, each with the name of what let it out.
        self.fatal: tuple[type[BaseException], ...] = ()
        self.unretrieved: list[tuple[BaseException, str]] = []
        # Exceptions that are faults: the last few.
        self.injected: list[BaseException] = []
        # A Ctrl-C, which a simulated system takes for its own end.
        self.interrupt: KeyboardInterrupt | None = None
        # How many events are kept.
        self.keep = keep
        self._log: list[object] = []
        # Where the next event is written: behind the last, or in the place of the oldest.
        self._place = 0
        self._end = keep * ENTRIES
        # The step and the time as objects: made once for all events that have the same.
        self._number = 0
        self._moment = 0.0
        self.fingerprint = 0
        self._names: dict[type, int] = {}

    def allow(self, steps: int) -> None:
        self.last_step = self.step + steps

    # -- its loops, and their systems

    def adopt(self, loop: Loop, is_first: bool) -> None:
        self.loops.append(loop)
        if is_first:
            loop.hooks.trust(self)

    def clock_for(self, wanted: Clock | None) -> Clock:
        return self.clock if wanted is None or type(wanted) is MonotonicClock else wanted

    def seed_for(self, wanted: int | None) -> int | None:
        return self.seed if wanted is None else wanted

    def loop_count(self, config: SystemConfig) -> int:
        if not self.has_loops():
            return 1
        return _CORES if config.loops == "cores" else config.loop_count()

    def require_threads(self, what: str, instead: str) -> None:
        raise SimulationRefused(what, instead)

    def owes_time(self, loop: Loop) -> bool:
        return self.faults is not None and self.faults.is_on_the_way(loop)

    # -- what the loop asks

    def next(self, runq: RunQueue) -> int:
        """A step begins: the position in the queue of the actor to visit."""
        self.step += 1
        self._number = self.step
        position = self.schedule.choose(self.step, runq)
        if self.choices is not None:
            self._chosen = runq.at(position)
            if position != 0:
                self._write_choice(position, 0, 0)
        return position

    def next_thread(self, threads: list[int], names: list[str]) -> int:
        """A step begins: the position of the virtual thread that goes on, of several that are ready."""
        self.step += 1
        self._number = self.step
        position = self.schedule.choose_thread(self.step, threads)
        number = threads[position]
        mark = (self.fingerprint ^ (number + 1) ^ (self.step << 36)) & ALL_BITS
        self.fingerprint = (mark * PRIME) & ALL_BITS
        if self.choices is not None and position != 0:
            self._chosen = names[position]
            self._write_choice(position, 0, 0)
        if self.faults is not None:
            self.faults.after_step(self.step)
        return position

    def leaves_brought(self) -> bool:
        """Whether a tick that has something else to do leaves what was brought to its loop for the next one."""
        if not self.has_threads:
            return False
        self.step += 1
        self._number = self.step
        leaves = self.schedule.leaves_brought(self.step)
        if leaves and self.choices is not None:
            self._chosen = BROUGHT
            self._write_choice(1, 0, 0)
        if self.faults is not None:
            self.faults.after_step(self.step)
        return leaves

    def budget(self, usual: int) -> int:
        wanted = self.schedule.budget(self.step)
        if wanted != 0 and self.choices is not None:
            self._write_choice(0, wanted, 0)
        return usual if wanted == 0 else min(wanted, usual)

    def ends_tick(self) -> bool:
        """Whether the loop hands its thread back after this visit."""
        if self.faults is not None:
            self.faults.after_step(self.step)
        if self.step >= self.last_step:
            return True
        if len(self.outside) == 0 or not self.schedule.pauses(self.step):
            return False
        if self.choices is not None:
            self._write_choice(0, 0, 1)
        return True

    def _write_choice(self, position: int, budget: int, pause: int) -> None:
        self.visited[self.step] = self._chosen  # type: ignore[assignment]
        before = self.choices.get(self.step, (0, 0, 0))  # type: ignore[union-attr]
        self.choices[self.step] = (before[0] | position, before[1] | budget, before[2] | pause)  # type: ignore[index]

    def meets(self, cell: Cell) -> None:
        if self.faults is not None:
            self.faults.meets(cell)

    def sends(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """A message is sent; True when it is on its way for a while, and need not be admitted now."""
        kind = TOLD
        shown = sender
        if isinstance(sender, Receipt):
            receipt: Receipt = sender
            shown = receipt.shown_sender()
            kind = receipt.origin()
        self.note(kind, cell, message, shown)
        return self.faults is not None and bool(self.faults.holds(cell, message, sender, lane, kind == TICKED))

    def approaches(self, cell: Cell) -> None:
        if self.faults is not None:
            self.faults.approaches(cell)

    def notifies(self, cell: Cell, notice: object) -> bool:
        return self.faults is not None and bool(self.faults.holds_notice(cell, notice))

    def handle(self, cell: Cell, message: object, sender: object) -> object:
        shown = sender
        if isinstance(sender, Receipt):
            receipt: Receipt = sender
            shown = receipt.shown_sender()
        self.last_actor = cell.id
        self.note(TAKEN, cell, message, shown)
        if self.faults is not None:
            return self.faults.handle(cell, message)
        return cell.handler(cell.subject, message)

    def hook_raised(self, cell: Cell, name: str, cause: BaseException) -> None:
        self._keep(cause, cell.name())
        if self.faults is not None:
            self.faults.hook_raised(cell, name, cause)

    def ask_ended(self, cell: Cell, receipt: Receipt, is_answered: bool, value: object) -> None:
        self.note(ANSWERED if is_answered else REFUSED, cell, value, receipt.shown_sender())

    def failed(self, cell: Cell, cause: BaseException) -> None:
        self.note(FAILED, cell, cause, None)
        if isinstance(cause, SimulationRefused) and self.refused is None:
            self.refused = cause
        elif isinstance(cause, KeyboardInterrupt):
            self.interrupt = cause
        self._keep(cause, cell.name())

    def declined(self, cell: Cell, cause: BaseException) -> None:
        self.note(DECLINED, cell, cause, None)

    def is_fault(self, cause: BaseException) -> bool:
        for fault in self.injected:  # noqa: SIM110 - a generator would be an object
            if fault is cause:
                return True
        return False

    def task_failed(self, name: str, cause: BaseException) -> None:
        for known, _ in self.unretrieved:
            if known is cause:
                return
        self._keep(cause, name)

    def retrieved(self, cause: BaseException) -> None:
        for _ in range(_A_FEW):
            for place in range(len(self.unretrieved) - 1, -1, -1):
                if self.unretrieved[place][0] is cause:
                    del self.unretrieved[place]  # the last only: the same may have been let out before
                    break
            cause = cause.__cause__  # type: ignore[assignment]
            if cause is None:
                return

    def inject(self, cause: BaseException) -> BaseException:
        """Return `cause`, known as a fault from now on."""
        self.injected.append(cause)
        del self.injected[:-_A_FEW]
        return cause

    def _keep(self, cause: BaseException, who: str) -> None:
        """Keep `cause`, if it is fatal, for the user."""
        if not self.fatal or len(self.unretrieved) >= _MANY:
            return
        if self.is_fault(cause):
            return
        one = cause
        for _ in range(_A_FEW):
            if isinstance(one, self.fatal) or (
                isinstance(one, BaseExceptionGroup) and one.subgroup(self.fatal) is not None
            ):
                self.unretrieved.append((cause, who))
                return
            # A caller may have caught it and raised another.
            one = one.__cause__  # type: ignore[assignment]
            if one is None:
                return

    # -- what happened

    def actor_started(self, ref: object) -> None:
        self._note_observed(STARTED, ref, None)

    def actor_stopped(self, ref: object, reason: object) -> None:
        self._note_observed(STOPPED, ref, reason)

    def actor_restarted(self, ref: object, cause: object) -> None:
        self._note_observed(RESTARTED, ref, cause)

    def escalated(self, ref: object, cause: object) -> None:
        self._note_observed(ESCALATED, ref, cause)

    def mailbox_full(self, ref: object, message: object, lane: object) -> None:
        self._note_observed(FULL, ref, message)

    def message_dropped(self, ref: object, message: object, lane: object) -> None:
        self._note_observed(DROPPED, ref, message)

    def dead_letter(self, ref: object, message: object, sender: object, why: str) -> None:
        self._note_observed(DEAD_LETTER, ref, message, sender)

    def _note_observed(self, kind: int, ref: Any, what: object, whom: object = None) -> None:
        self.note(kind, getattr(ref, "_cell", ref), what, whom)

    def note(self, kind: int, cell: Cell | None, what: object, whom: object) -> None:
        """Write an event down: something of `kind` happened to `cell`, with `what`, because of `whom`."""
        number = cell.id if cell is not None else 0
        sender = 0
        if whom is not None:
            # A ref hashes by its number; all other senders count as one.
            sender = hash(whom) if cell is not None and type(whom) is type(cell.ref) else 1
        mark = ((self.fingerprint ^ (kind + 1) ^ (number << 8) ^ (self.step << 36)) * PRIME) & ALL_BITS
        mark = ((mark ^ (mark >> 29) ^ self._mark_of(what, 0) ^ (sender << 20)) * PRIME) & ALL_BITS
        self.fingerprint = mark ^ (mark >> 29)
        if self.keep == 0:
            return
        log = self._log
        place = self._place
        self._place = place + ENTRIES
        if self._place == self._end:
            self._place = 0
        if place == len(log):
            log.extend(_BLANK)
        # What is forgotten for this may have a finalizer, which sends: its event has the next place.
        if COMPILED:
            put_entry(log, place, kind)
            put_entry(log, place + 1, self._number)
            put_entry(log, place + 2, self._moment)
            put_entry(log, place + 3, cell)
            put_entry(log, place + 4, what)
            put_entry(log, place + 5, whom)
        else:
            log[place : place + ENTRIES] = kind, self._number, self._moment, cell, what, whom

    @property
    def log(self) -> list[object]:
        return self._log[self._place :] + self._log[: self._place]

    def time_moved(self) -> None:
        """The clock has moved: part of what happened."""
        self._moment = self.clock.time
        mark = (self.fingerprint ^ (hash(self.clock.time) & ALL_BITS)) & ALL_BITS
        self.fingerprint = (mark * PRIME) & ALL_BITS

    def _mark_of(self, what: object, depth: int) -> int:
        """A number that tells `what` from other things, the same in every run: no address, no hash of a text."""
        kind = type(what)
        if kind is int or kind is bool or (kind is float and what == what):  # or its hash is its address
            number = hash(what)
            # -1 and -2 have the same hash, and so have numbers that are far apart.
            if kind is int and number != what:
                return self._mark_of_text(str(what))
            return number & ALL_BITS
        if kind is str:
            return self._mark_of_text(what)  # type: ignore[arg-type]
        if kind is tuple and depth < _DEEPEST:
            mark = len(what)  # type: ignore[arg-type]
            for one in what:  # type: ignore[attr-defined]
                mark = ((mark ^ self._mark_of(one, depth + 1)) * PRIME) & ALL_BITS
            return mark
        known = self._names.get(kind)
        if known is None:
            known = self._names[kind] = crc32(kind.__qualname__.encode())
        return known

    def _mark_of_text(self, text: str) -> int:
        return crc32(text.encode("utf-8", "surrogatepass")) + 1
