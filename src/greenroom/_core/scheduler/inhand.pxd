import cython
from greenroom._core.capi cimport COMPILED, HAS_GIL
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.simulation.director cimport Director
from greenroom._core.delivery.admission cimport Admission
from greenroom._core.timing.tickbudget cimport TickBudget
from greenroom._core.runqueue cimport RunQueue
from greenroom._core.receipt cimport Receipt
from greenroom._core.scheduler.host cimport HostBase
from greenroom._core.scheduler.stepping cimport HandlerTask

cdef int OFFLOADED, RESUME
cdef int ENDED_IN_HAND, ENDED
cdef int NOTHING, MESSAGE, NOTICED, STASHED  # not DATA, which `visits` imports

cdef class InHand:
    cdef readonly Cell hand
    cdef readonly object message, sender
    cdef readonly int kind, lane
    cdef object context
    cdef Admission admission
    cdef HostBase host
    cdef readonly Director director
    cdef TickBudget tick_budget
    cdef readonly object holder
    cdef readonly tuple neighbours
    cdef bint is_marked
    cdef readonly Py_ssize_t suspended
    cdef public long long ended_in_hand
    cdef unsigned long long _mark
    cdef double _resumed_from
    cdef readonly double took

    cpdef hold(self, object holder)
    cpdef set_neighbours(self, tuple neighbours)
    @cython.locals(runq=RunQueue)
    cdef int _mark_hand(self, Cell cell) except -1
    cpdef tuple peek_hand(self)
    cpdef let_sender_go(self)
    cpdef tuple stash(self)
    cpdef show(self, object message)
    @cython.locals(kind=int)
    cdef _leave_unhandled(self, Cell cell)
    @cython.locals(cell=Cell, kind=int)
    cdef _fail(self, object cause)
    cdef bint _is_refusal(self, Cell cell, object message, object sender, object cause) except? False
    @cython.locals(task=HandlerTask)
    cpdef abandon(self, Cell cell)
    cdef _count_failed(self, Cell cell)
    cdef _tell_failed(self, Cell cell, Receipt receipt, object cause)
    cdef _count_out(self, Cell cell)

# As in `cell.pxd`. With a GIL there is no lock, so what is replaced may be dropped at once, as any assignment does.
cdef inline tuple guarded_hand(InHand in_hand):
    with cython.critical_section(in_hand):
        return in_hand.hand, in_hand.message

cdef inline int guard_hand(InHand in_hand, Cell hand) except -1:
    cdef Cell old
    if HAS_GIL:
        in_hand.hand = hand
        return 0
    with cython.critical_section(in_hand):
        old = in_hand.hand
        in_hand.hand = hand
    return 0

cdef inline int guard_message(InHand in_hand, object message) except -1:
    cdef object old
    if HAS_GIL:
        in_hand.message = message
        return 0
    with cython.critical_section(in_hand):
        old = in_hand.message
        in_hand.message = message
    return 0
