"""Siblings that are restarted together, because the `Supervision` of one of them says so.

They are told at the tick after the failure: all that fail in one tick are one group. They leave in reverse order, all
at once; when the last is at rest, and the longest backoff among them is over, they start in order, one after the other.

Siblings at the top may be on several loops. Then each loop has a group of its own; none starts anybody before all have
left, and each starts its own in order.

Groups that meet become one. A member that fails while others are still to be started waits for those: then there is
another restart, one for all that have failed by then.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from greenroom._core.mailbox.cell import Cell
from greenroom._core.timing.timers import Alarm
from greenroom.actor.life import ending
from greenroom.actor.life.restarting import RestartOrder, forget_alarm, start_again
from greenroom.actor.messaging.ref import Alias
from greenroom.actor.messaging.timers import set_alarm
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.restartstate import restart_state_of
from greenroom.actor.records.states import State
from greenroom.policy.directives import Scope, group_of

if TYPE_CHECKING:
    from greenroom.actor.failure.groupbarrier import GroupBarrier
    from greenroom.actor.records.ports import ActorHost

__all__ = ["Group", "join_group"]

CREATED = State.CREATED.code
STOPPING = State.STOPPING.code


class Group(Alarm):
    """One restart of several siblings. Rings when their backoff is over."""

    __slots__ = (
        "_absent",
        "_again",
        "_barrier",
        "_begun",
        "_has_arrived",
        "_life",
        "_members",
        "_origin",
        "_starting",
        "_up",
        "_waits_until",
        "cause",
        "due",
        "scope",
    )

    def __init__(
        self,
        life: ActorHost,
        origin: ActorRecord | None,
        scope: Scope,
        cause: BaseException,
        due: float,
        barrier: GroupBarrier | None = None,
    ) -> None:
        self.set_up_alarm(0.0)
        self._life = life
        # The one that failed, if it is on this loop.
        self._origin = origin
        # What it waits for with the groups of other loops, and whether they know that all of this loop have left.
        self._barrier = barrier
        self._has_arrived = False
        self.scope = scope
        self.cause = cause
        # When they may start: not before the longest backoff among them is over.
        self.due = due
        self._begun = False
        # Those still to be started, in order; one that has another group by then is left out.
        self._members: deque[ActorRecord] = deque(() if origin is None else (origin,))
        # Invariant: the members that are not at rest yet
        self._absent: dict[ActorRecord, None] = {}
        # The one that is starting, and those that are running again.
        self._starting: ActorRecord | None = None
        self._up: dict[ActorRecord, None] = {}
        # Those of them that have failed again.
        self._again: dict[ActorRecord, tuple[Scope, BaseException, float]] = {}
        self._waits_until = -1.0
        life.loop.inbound.call(None, self.begin)

    def take_over(self, other: Group) -> list[ActorRecord]:
        """What is left of `other` waits for this group instead: who that is."""
        self.due = max(self.due, other.due)
        found = [member for member in other._members if restart_state_of(member).group is other]
        if other._starting is not None and restart_state_of(other._starting).group is other:
            found.append(other._starting)
        found += [member for member in other._again if restart_state_of(member).group is other]
        for member in other._up:
            restart_state_of(member).group = None
        for member in found:
            restart_state_of(member).group = self
        other._up.clear()
        other._again.clear()
        other._members.clear()
        other._absent.clear()
        other._starting = None
        other.disarm(self._life.loop.timers)
        other._arrive()
        if not self._begun:
            self._members.extend(found)
        return found

    def is_starting(self, member: ActorRecord) -> bool:
        """Whether `member` has been started, and is not running yet."""
        return member is self._starting

    def has_up(self, member: ActorRecord) -> bool:
        """Whether `member` has been started, and is running."""
        return member in self._up

    def begin(self) -> None:
        """Gather the siblings, and have them leave."""
        if not any(restart_state_of(member).group is self for member in self._members):
            self._arrive()
            return  # another group has taken them in, or they have ended
        members = self._gather()
        if self._origin in members and self._origin.cell.ref._parent is None:
            self._call_other_loops(self._origin.cell)
        for member in reversed(members):
            restart_state = restart_state_of(member)
            restart_state.group = self
            restart_state.at_once = False
            if restart_state.due is not None:
                self.due = max(self.due, restart_state.due)
            forget_alarm(member.cell, restart_state)
            if restart_state.resting:
                continue
            self._absent[member] = None
            if not restart_state.comes_back:
                self._life.request_restart(member.cell, RestartOrder(self.cause, self))
        self._members = deque(members)
        self._begun = True
        self._go_on()

    def _gather(self) -> list[ActorRecord]:
        chosen = dict.fromkeys(member for member in self._members if restart_state_of(member).group is self)
        parent = next(iter(chosen)).cell.ref._parent
        siblings = (self._life.top if parent is None else parent._cell.record.child_list).records()
        if self._origin in chosen:
            group = group_of(self.scope, len(siblings), siblings.index(self._origin))
            chosen.update(dict.fromkeys(siblings[number] for number in group if _takes_part(siblings[number])))
        for record in list(chosen):
            other = restart_state_of(record).group
            if other is not None and other is not self:
                chosen.update(dict.fromkeys(self.take_over(other)))  # type: ignore[arg-type]
        return [record for record in siblings if record in chosen]

    def _call_other_loops(self, origin: Cell) -> None:
        """Have the siblings on other loops leave, too."""
        life = self._life
        others = life.port._other_hosts(life)
        if others:
            from greenroom.actor.failure.groupbarrier import GroupBarrier  # not for programs with one loop

            self._barrier = barrier = GroupBarrier(1 + len(others))
            place = life.place_at_top(origin)
            for other in others:
                other.loop.inbound.call(
                    None, partial(_join_from_elsewhere, other, barrier, self.scope, self.cause, self.due, place)
                )

    def adopt(self, members: list[ActorRecord]) -> None:
        """Let these be its members; those that have a group bring that along."""
        for member in members:
            restart_state = restart_state_of(member)
            before: Group | None = restart_state.group  # type: ignore[assignment]
            if before is None:
                restart_state.group = self
                self._members.append(member)
            elif before is not self:
                self.take_over(before)

    def _arrive(self) -> None:
        if self._barrier is not None and not self._has_arrived:
            self._has_arrived = True
            self._barrier.arrive(self._life.loop, self)

    def go_on(self) -> None:
        """The siblings on all loops have left."""
        self._go_on()

    def rested(self, member: ActorRecord) -> None:
        """`member` has left, and waits."""
        self._absent.pop(member, None)
        if member is self._starting:
            # Its start was broken off, because somebody wants it restarted: it is still its turn.
            member.cell.order(self._start)
        self._go_on()

    def lose(self, member: ActorRecord) -> None:
        """`member` is none of them any more: it runs again, has ended, or something else was decided about it."""
        restart_state = restart_state_of(member)
        if restart_state.group is self:
            restart_state.group = None
        self._absent.pop(member, None)
        self._up.pop(member, None)
        self._again.pop(member, None)
        if member is self._starting:
            self._starting = None
        self._go_on()

    def is_up(self, member: ActorRecord) -> None:
        """`member` is running again."""
        if member is self._starting:
            self._starting = None
            self._up[member] = None
            self._go_on()
        elif member not in self._absent:
            self.lose(member)  # somebody else has started it
        # Else it was being started when this group took it in: the order to leave waits for it.

    def fails_again(self, member: ActorRecord, scope: Scope, cause: BaseException, due: float) -> bool:
        """A member has failed that is running again; whether it waits for those that are still to be started."""
        if member in self._up:
            self._again[member] = (scope, cause, due)
            return True
        return False

    def ring(self, admission: object) -> None:
        """The backoff is over."""
        self._go_on()

    def _go_on(self) -> None:
        """Start the next, if all are at rest and it is time."""
        while self._members and restart_state_of(self._members[0]).group is not self:
            self._members.popleft()
        if not self._begun or self._starting is not None or self._absent:
            return
        self._arrive()
        if self._barrier is not None and not self._barrier.is_open:
            return
        if not self._members:
            self._end()
            return
        loop = self._life.loop
        if self.due > loop.now():
            self._wait()
        else:
            self._starting = self._members.popleft()
            self._starting.cell.order(self._start)

    def _start(self, cell: Cell) -> object:
        """An order to the one whose turn it is, unless another group has taken it in since."""
        return start_again(cell) if self._starting is not None and self._starting.cell is cell else None

    def _end(self) -> None:
        """All are up. For those that have failed since, it begins again."""
        up, self._up = self._up, {}
        again, self._again = self._again, {}
        for member in up:
            restart_state = restart_state_of(member)
            if restart_state.group is self:
                restart_state.group = None
                if member in again:
                    restart_state.group = Group(self._life, member, *again[member])

    def _wait(self) -> None:
        if self._waits_until == self.due:
            return
        self._waits_until = self.due
        loop = self._life.loop
        self.disarm(loop.timers)
        set_alarm(loop, self, self.due)
        for member in self._members:
            restart_state_of(member).due = self.due


def _join_from_elsewhere(
    life: ActorHost, barrier: GroupBarrier, scope: Scope, cause: BaseException, due: float, place: int
) -> None:
    """One on another loop has failed, in `place` among all at the top: those here leave that its scope names."""
    members = [
        record
        for record in life.top.records()
        if (scope is Scope.ONE_FOR_ALL or life.place_at_top(record.cell) > place) and _takes_part(record)
    ]
    if life.closed or not members:
        barrier.arrive(life.loop)
    else:
        Group(life, None, scope, cause, due, barrier).adopt(members)


def _takes_part(record: ActorRecord) -> bool:
    """Whether a sibling is to be restarted: it is alive, and neither ending nor waiting for a decision further up."""
    if record.state in (CREATED, STOPPING) or type(record.cell.ref) is Alias:
        return False  # a meta-process is its parent's own, and nobody's sibling
    extras = record.extras
    restart_state = None if extras is None else extras.restart_state
    if restart_state is None:
        return record.phase == ending.NONE
    return restart_state.comes_back or (
        record.phase == ending.NONE and not restart_state.final and not restart_state.escalated
    )


def join_group(life: ActorHost, record: ActorRecord, scope: Scope, cause: BaseException, due: float) -> None:
    """Let an actor that failed be restarted with those that `scope` names, or with those it is to be restarted with."""
    restart_state = restart_state_of(record)
    before: Group | None = restart_state.group  # type: ignore[assignment]
    if before is not None and scope is not Scope.ONE_FOR_ONE and before.fails_again(record, scope, cause, due):
        return
    if before is not None and not before.is_starting(record) and not before.has_up(record):
        larger = scope is Scope.ONE_FOR_ALL and before.scope is not Scope.ONE_FOR_ALL
        if not larger:
            before.due = max(before.due, due)
            return
    restart_state.group = None
    if scope is not Scope.ONE_FOR_ONE:
        restart_state.group = Group(life, record, scope, cause, due)
        if before is not None:
            restart_state.group.take_over(before)
    elif before is not None:
        before.lose(record)
