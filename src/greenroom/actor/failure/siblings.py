"""Siblings that are restarted together, because the plain `Supervision` of one of them says so.

All that fail in one tick are one restart, decided at the next tick. The siblings leave in reverse order, all at once;
when the last is at rest, and the longest backoff among them is over, they start in order, one after the other. One that
fails before it has left is part of that restart. One that fails again while others are still to be started waits for
those: then there is another restart, one for all that have failed by then.

The engine of actors at the top works on the system's first loop, whichever loops they live on.
"""

from __future__ import annotations

from functools import partial
from sys import maxsize
from typing import TYPE_CHECKING

from greenroom.actor.failure.engine import Delayed, Member, Operation, RestartEngine, Status
from greenroom.actor.life.restarting import RestartOrder, start_again
from greenroom.actor.messaging.ref import Alias
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.restartstate import restart_state_of
from greenroom.actor.records.states import COMES_BACK, GOES_DOWN, STATES, Stage, State
from greenroom.policy.directives import Scope, group_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.actor.messaging.address import Address
    from greenroom.actor.records.restartstate import RestartState
    from greenroom.exits import ExitReason

CREATED = int(Stage.CREATED)
ESCALATED = int(Stage.ESCALATED)
RESTING = int(Stage.RESTING)


class Sibling(Member):
    """One sibling, from when it leaves until it runs again."""

    __slots__ = ("cause", "cell", "due", "leaves", "place", "scope", "siblings")

    def __init__(self, siblings: Siblings, cell: Cell) -> None:
        super().__init__(Status.LEAVING)
        self.siblings = siblings
        self.cell = cell
        # Where it stands among its siblings.
        self.place = siblings.place_of(cell)
        # With whom it is restarted because it failed, and why; and when it may start.
        self.scope = Scope.ONE_FOR_ONE
        self.cause: BaseException | None = None
        self.due = 0.0
        # Whether it is on its way to rest with them. Written by the actor's own thread.
        self.leaves = True

    # -- told by the runtime, on the actor's own thread

    def rested(self, reason: ExitReason) -> None:
        self.leaves = False
        self.siblings.post(partial(self.siblings.rested, self, reason))

    def running(self) -> None:
        """The actor runs again. If it still leaves, it was being started for another reason when it was told to."""
        if not self.leaves:
            restart_state_of(self.cell.record).sibling = None
            self.siblings.post(partial(self.siblings.running, self))

    def gone(self) -> None:
        """The actor has ended for good, or something else was decided about it."""
        restart_state_of(self.cell.record).sibling = None
        self.siblings.post(partial(self.siblings.gone, self))

    # -- told by the engine

    def start(self) -> bool:
        if self.status is not Status.RESTING:
            return False
        self.status = Status.STARTING
        self.cell.order(start_again)
        return True

    def leave(self, cause: BaseException | None) -> None:
        """Do nothing: the actor was told to leave when it was taken in."""


class Siblings:
    """The children of one parent, or the actors at the top, while some of them are restarted together."""

    __slots__ = ("_engine", "_expected", "_failed", "_is_awake", "_life", "_members", "_parent")

    def __init__(self, life: Lifecycle, parent: Address | None) -> None:
        self._life = life
        self._parent = parent
        self._engine: RestartEngine[Sibling] = RestartEngine(life.loop, self._settle, self._ring)
        # Those whose failure is still to be decided about, and those that leave with them.
        self._failed: list[Sibling] = []
        self._members: list[Sibling] = []
        # How many loops have yet to say who takes part.
        self._expected = 0
        self._is_awake = False

    def post(self, action: Callable[[], object]) -> None:
        _call(self._life, action)

    def place_of(self, cell: Cell) -> int:
        """Where an actor stands among its siblings: by age."""
        life: Lifecycle = cell.loop.host
        place = life.place_at_top(cell)
        if place >= 0:
            return place
        return self._all_on(life).index(cell.record)

    def _all_on(self, life: Lifecycle) -> list[ActorRecord]:
        if self._parent is None:
            return life.top.records()
        above = self._parent._cell.record
        return [] if above.child_list is None else above.child_list.records()

    # -- news

    def failed(self, sibling: Sibling) -> None:
        sibling.status = Status.LEAVING
        self._failed.append(sibling)
        self._engine.decide_later(sibling)
        if not self._is_awake:  # at the next tick, with all that fail until then
            self._is_awake = True
            self._life.loop.inbound.post(None, self._wake)

    def _wake(self) -> None:
        self._is_awake = False
        self._go_on()

    def rested(self, sibling: Sibling, reason: ExitReason) -> None:
        self._engine.rested(sibling, reason)
        self._go_on()

    def running(self, sibling: Sibling) -> None:
        """A sibling runs again. One that was not told to start is none any more: it does not wait for the others."""
        if sibling.status is Status.STARTING:
            self._engine.running(sibling)
        else:
            self._engine.gone(sibling)
        self._go_on()

    def gone(self, sibling: Sibling) -> None:
        self._engine.gone(sibling)
        self._go_on()

    def _ring(self, delayed: Delayed[Sibling]) -> None:
        self._engine.rung(delayed)
        self._go_on()

    def _go_on(self) -> None:
        if not self._is_awake:
            self._engine.go_on()
            if self._engine.is_idle and self._parent is not None:
                self._life.restarting.pop(self._parent, None)

    # -- the restart

    def _settle(self, first: Sibling) -> Operation | None:
        return self._restart() if self._failed else None

    def _restart(self) -> Operation:
        while self._failed:  # those that fail while others leave are part of it
            yield from self._gather()
            yield from self._engine.bring_down(self._members, None)
        members, self._members = [one for one in self._members if one.status is Status.RESTING], []
        if members:
            due = max(one.due for one in members)
            due, batch = self._engine.restart_together(members, due, lambda sibling: sibling.place)
            for one in batch:
                _call(one.cell.loop.host, partial(_show_due, one.cell, due))

    def _gather(self) -> Operation:
        failed, self._failed = [one for one in self._failed if one.status is not Status.STOPPED], []
        hosts = [self._life] if self._parent is not None else self._life.system._hosts()
        self._expected = len(hosts) if failed else 0
        for host in hosts if failed else ():
            if not _call(host, partial(self._take_in, host, failed)):
                self._expected -= 1  # that loop has ended
        while self._expected:
            yield

    def _take_in(self, host: Lifecycle, failed: list[Sibling]) -> None:
        """Have the siblings on one loop leave, the youngest first. On that loop's thread."""
        taken = []
        for number, record in reversed(list(enumerate(self._all_on(host)))):
            place = host.place_at_top(record.cell)
            place = number if place < 0 else place
            is_failed = any(one.cell is record.cell for one in failed)
            concerned = any(place in group_of(one.scope, maxsize, one.place) for one in failed)
            if is_failed or (concerned and not host.closed and _takes_part(record)):
                taken.append(self._tell_to_leave(host, record, failed[0].cause))
        self.post(partial(self._have_taken_in, taken))

    def _tell_to_leave(
        self, host: Lifecycle, record: ActorRecord, cause: BaseException | None
    ) -> tuple[Sibling, Status]:
        restart_state = restart_state_of(record)
        if restart_state.sibling is None:
            restart_state.sibling = Sibling(self, record.cell)
        sibling = restart_state.sibling
        if restart_state.due is not None:
            sibling.due = max(sibling.due, restart_state.due)
        restart_state.at_once = False
        restart_state.forget_alarm()
        if record.stage == RESTING:
            sibling.leaves = False
            return sibling, Status.RESTING
        sibling.leaves = True
        if not COMES_BACK[record.stage]:
            host.request(record.cell, RestartOrder(cause, sibling))
        return sibling, Status.LEAVING

    def _have_taken_in(self, taken: list[tuple[Sibling, Status]]) -> None:
        for sibling, status in taken:
            sibling.status = status
            if sibling not in self._members:
                self._members.append(sibling)
        self._expected -= 1
        self._go_on()


def restart_with_siblings(life: Lifecycle, record: ActorRecord, scope: Scope, cause: BaseException, due: float) -> None:
    """An actor that failed is restarted with those that `scope` names, or with those that it leaves with already."""
    restart_state = restart_state_of(record)
    sibling = restart_state.sibling
    if sibling is None or not sibling.leaves:
        if scope is Scope.ONE_FOR_ONE:
            leave_siblings(restart_state)
            return
        if sibling is None:
            sibling = restart_state.sibling = Sibling(_siblings_of(life, record.cell.ref._parent), record.cell)
        sibling.leaves = True
    sibling.scope, sibling.cause, sibling.due = scope, cause, max(sibling.due, due)
    sibling.siblings.post(partial(sibling.siblings.failed, sibling))


def leave_siblings(restart_state: RestartState) -> None:
    if restart_state.sibling is not None:
        restart_state.sibling.gone()


def _siblings_of(life: Lifecycle, parent: Address | None) -> Siblings:
    home = life if parent is not None else life.system._hosts()[0]
    return home.restarting.get(parent) or home.restarting.setdefault(parent, Siblings(home, parent))


def _takes_part(record: ActorRecord) -> bool:
    """Whether a sibling is to be restarted: it is alive, and neither ending nor waiting for a decision further up."""
    if record.stage in (CREATED, ESCALATED) or type(record.cell.ref) is Alias:
        return False  # a meta-process is its parent's own, and has no siblings
    if GOES_DOWN[record.stage]:
        return COMES_BACK[record.stage] and STATES[record.state] is not State.STOPPING
    restart_state = None if record.extras is None else record.extras.restart_state
    return restart_state is None or restart_state.supervisor is None


def _show_due(cell: Cell, due: float) -> None:
    if isinstance(cell.record, ActorRecord):
        restart_state_of(cell.record).due = due


def _call(life: Lifecycle, action: Callable[[], object]) -> bool:
    """Call `action` on the thread of a loop, at once if this is that; whether it will be called."""
    if life.is_foreign():
        return life.loop.inbound.post(None, action)
    action()
    return True
