import cython
from greenroom._core.capi cimport COMPILED
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.simulation.director cimport Director
from greenroom._core.delivery.admission cimport Admission
from greenroom._core.timing.tickbudget cimport TickBudget
from greenroom._core.runqueue cimport RunQueue
from greenroom._core.receipt cimport Receipt
from greenroom._core.scheduler.host cimport HostBase
from greenroom._core.scheduler.stepping cimport HandlerTask

cdef int OFFLOADED, RESUME
cdef int ADRIFT, ENDED
cdef int NOTHING, MESSAGE, NOTICED, STASHED  # not DATA, which `visits` imports

cdef class InHand:
    # First, and in this order: see `peek_hand`.
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
    cdef public long long adrift
    cdef unsigned long long _mark
    cdef double _resumed_from
    cdef readonly double took

    cpdef hold(self, object holder)
    cpdef stand_beside(self, tuple neighbours)
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
    cdef _come_home(self, Cell cell)
