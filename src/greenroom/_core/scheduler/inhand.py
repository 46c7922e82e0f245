# cython: boundscheck=False, wraparound=False, nonecheck=False
"""What a loop has in hand: a cell, its message or order, and what becomes of that when its handler does not return.

`Visits` puts things into hand, and sees to those that are handled. Here are the rarer ends of a message: its handler
raised, refused it, left it unhandled, stashed it, or was broken off. None of them is on the quick way.
"""

from __future__ import annotations

from asyncio import CancelledError
from typing import TYPE_CHECKING

from greenroom._core.build import COMPILED
from greenroom._core.delivery.admission import Admission
from greenroom._core.flags import OFFLOADED, RESUME
from greenroom._core.itemkinds import MESSAGE, NOTHING, NOTICED, STASHED
from greenroom._core.mailbox.cell import ENDED, ENDED_IN_HAND, Cell
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.stepping import HandlerTask
from greenroom._core.timing.tickbudget import TickBudget
from greenroom.errors import InternalError
from greenroom.exits import ends_system
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from contextvars import Context
    from weakref import ref

    from greenroom._core.runqueue import RunQueue
    from greenroom._core.scheduler.host import Host
    from greenroom._core.simulation.director import Director
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["DATA", "InHand"]

_log = RuntimeLog()

DATA = 1
"""As in `greenroom.lanes.Lane`."""


class InHand:
    """The cell in hand, what it handles, and from whom."""

    __slots__ = (
        "_mark",
        "_resumed_from",
        "admission",
        "context",
        "director",
        "ended_in_hand",
        "hand",
        "holder",
        "host",
        "is_marked",
        "kind",
        "lane",
        "message",
        "neighbours",
        "sender",
        "suspended",
        "tick_budget",
        "took",
    )

    def __init__(self, admission: Admission, tick_budget: TickBudget) -> None:
        self.admission = admission
        self.host: Host | Lifecycle = admission.host
        self.director: Director | None = admission.director
        self.tick_budget = tick_budget
        # These two are guarded, as in a `Cell`: `peek_hand` reads them from any thread.
        self.hand: Cell | None = None
        self.message: object = None
        self.kind = NOTHING
        self.sender: object = None
        # Invariant: DATA, but while a message of another lane is in hand; so the quick way need not set it
        self.lane = DATA
        # The context of the message in hand, if it has one of its own.
        self.context: Context | None = None
        # Where the id of the cell in hand is written for other processes to see, if some do: shared memory.
        self.holder: memoryview | None = None
        # Other loops that run on this thread: what is told to their actors in a visit comes from the cell in hand too.
        self.neighbours: tuple[ref[RunQueue], ...] = ()
        # Invariant: True iff one of these two is there
        self.is_marked = False
        # Invariant: how many cells have a suspended handler or order
        self.suspended = 0
        # How many cells have ended with a message in hand that has not come to its end.
        self.ended_in_hand = 0
        # When the last message was done, in counts; when the handler that is being resumed began, or -1; and how long
        # the handler took that failed last. So a failure can be told with its time, and no message has to be timed.
        self._mark = 0
        self._resumed_from = -1.0
        self.took = 0.0

    # -- who may see it

    def hold(self, holder: memoryview) -> None:
        """Write the id of the cell in hand there, from now on."""
        self.holder = holder
        self.is_marked = True

    def set_neighbours(self, neighbours: tuple[ref[RunQueue], ...]) -> None:
        """Set the other loops of this thread."""
        self.neighbours = neighbours
        self.is_marked = self.holder is not None or bool(neighbours)

    def _mark_hand(self, cell: Cell | None) -> None:
        if self.holder is not None:
            self.holder[0] = 0 if cell is None else cell.id
        for neighbour in self.neighbours:
            runq = neighbour()
            if runq is not None:
                runq.current_ref = None if cell is None else cell.ref

    def peek_hand(self) -> tuple[Cell | None, object]:
        """The cell in hand, and its message. From any thread."""
        return guarded_hand(self) if COMPILED else (self.hand, self.message)

    # -- how it ends

    def let_sender_go(self) -> None:
        """The message in hand is answered, or will be, by another actor."""
        self.sender = None

    def stash(self) -> tuple[object, object, int]:
        """Take the message in hand away to be handled later, with its sender and lane; there must be one."""
        self.kind = STASHED
        return self.message, self.sender, self.lane

    def show(self, message: object) -> None:
        """Take `message` for what is in hand: a failure, or a message left unhandled, is told with it."""
        if COMPILED:
            guard_message(self, message)
        else:
            self.message = message

    def _leave_unhandled(self, cell: Cell) -> None:
        kind = self.kind
        self.kind = NOTHING
        if kind == MESSAGE:
            self.admission.count_unhandled(cell)
            if cell.ended == ENDED_IN_HAND:
                self._count_out(cell)
        if kind == MESSAGE or kind == NOTICED:  # noqa: SIM109 - a tuple to search in would be an object
            try:
                self.host.unhandled(cell, self.message, self.sender)
            finally:
                if kind == MESSAGE and isinstance(self.sender, Receipt):
                    self.sender.discard("unhandled")  # last, as in `tell_dead_letter`

    def _fail(self, cause: BaseException) -> None:
        """The cell in hand let `cause` out. Its visit ends with that; raise if the cause is none of its handler's."""
        cell = self.hand
        kind, message, sender = self.kind, self.message, self.sender
        context, self.context = self.context, None
        self.kind = NOTHING
        self.lane = DATA
        self.took = (
            self.tick_budget.since(self._mark)
            if self._resumed_from < 0.0
            else self.tick_budget.now() - self._resumed_from
        )
        self._resumed_from = -1.0
        if cell is None:
            raise InternalError("the loop itself failed: please report this") from cause
        if kind == MESSAGE and self._is_refusal(cell, message, sender, cause):
            cell.handled += 1
            if isinstance(sender, Receipt):
                self._tell_failed(cell, sender, cause)
            return
        if kind == STASHED and self._is_refusal(cell, message, None, cause):  # it is put aside, and not answered yet
            return
        if self.director is not None:
            self.director.failed(cell, cause)
        if kind == NOTHING:
            # Not its handler: what is told of results, or (in plain Python) a signal between two steps of ours.
            if ends_system(cause):
                raise cause
            raise InternalError(f"the loop failed with {cell} in hand: please report this") from cause
        if kind == MESSAGE:
            self._count_failed(cell)
        try:
            if not cell.ended or ends_system(cause):
                if context is None:
                    self.host.failed(cell, message, cause)
                else:
                    context.run(self.host.failed, cell, message, cause)
        finally:
            # When it is decided what becomes of the actor: that is part of what a receipt tells.
            if kind == MESSAGE and isinstance(sender, Receipt):
                self._tell_failed(cell, sender, cause)

    def _is_refusal(self, cell: Cell, message: object, sender: object, cause: BaseException) -> bool:
        """Whether `cause` is an answer to the message in hand, and no failure. An injected fault never is."""
        if cell.ended or (self.director is not None and self.director.is_fault(cause)):
            return False
        if not self.host.refuses(cell, message, sender, cause):
            return False
        self.admission.count_refusal(cell)
        return True

    def abandon(self, cell: Cell) -> None:
        """Break off the suspended handler of `cell`, which will not end by itself; its message counts as failed."""
        task: HandlerTask = cell.task
        cell.flags &= ~RESUME
        self.suspended -= 1
        if cell.flags & OFFLOADED:
            task.abandon_waiter()  # which says what of it is done
        if task.kind == MESSAGE:
            self._count_failed(cell)
            if isinstance(task.sender, Receipt):
                self._tell_failed(cell, task.sender, CancelledError("abandoned"))
        try:
            task.abandon()
        except BaseException as exc:
            fields = cell.loop.host.log_fields(cell)
            _log.exception("the handler of %s would not be broken off", cell.name(), extra=fields)
            if self.director is not None:
                self.director.hook_raised(cell, "handler", exc)

    def _count_failed(self, cell: Cell) -> None:
        self.admission.count_failed(cell)
        if cell.ended == ENDED_IN_HAND:
            self._count_out(cell)

    def _tell_failed(self, cell: Cell, receipt: Receipt, cause: BaseException) -> None:
        try:
            receipt.fail(cause)
        except Exception:
            fields = cell.loop.host.log_fields(cell)
            _log.exception("a receipt raised when it was told of a failure of %s", cell.name(), extra=fields)

    def _count_out(self, cell: Cell) -> None:
        """What an ended cell still had in hand is counted in the ledger now."""
        self.ended_in_hand -= 1
        cell.ended = ENDED
