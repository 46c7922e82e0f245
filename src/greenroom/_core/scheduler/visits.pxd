import cython
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED, HAS_GIL, pass_on
from greenroom._core.mailbox.cell cimport Cell, HostOrder, call_handler
from greenroom._core.delivery.admission cimport Admission
from greenroom._core.observerhooks cimport ObserverHooks
from greenroom._core.timing.tickbudget cimport TickBudget, counter
from greenroom._core.mailbox.ring cimport take_first
from greenroom._core.runqueue cimport RunQueue
from greenroom._core.receipt cimport Receipt
from greenroom._core.scheduler.host cimport HostBase
from greenroom._core.simulation.director cimport Director
from greenroom._core.scheduler.stepping cimport HandlerTask, Stepper
from greenroom._core.behavior cimport BehaviorBase, is_generator

cdef double LINGER, NEVER
cdef int OFFLOADED, HELD, ORDERS, PROPAGATES, RECEIPTS, RESUME, ROOM, NOTED, NOTIFY_TAKEN
cdef int ENDED, ENDED_IN_HAND, _UNTIMED
cdef int EMPTY, DATA, KEPT, NOTHING, MESSAGE, NOTICED, ORDERED, STASHED
cdef object CoroutineType, SUSPENDED, NOTICE

cdef extern from *:
    """
    static inline int greenroom_can_await(PyObject *object) {
        PyAsyncMethods *methods = Py_TYPE(object)->tp_as_async;
        return methods != NULL && methods->am_await != NULL;
    }
    """
    bint can_await "greenroom_can_await" (object)

cdef bint is_awaitable(object result)
cdef bint is_coroutine(object awaitable)

@cython.final
cdef class Visits:
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
    cdef RunQueue runq
    cdef ObserverHooks hooks
    cdef readonly Stepper stepper
    cdef readonly unsigned long long ended_handled
    cdef readonly double trim_at
    cdef bint _out_of_time
    cdef int _untimed
    cdef double _tick_began
    cdef dict _large
    cdef Py_ssize_t _left, _batch, _strained, _per_visit, _per_tick

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
    @cython.locals(waiting=Py_ssize_t)
    cpdef make(self, double now)
    @cython.locals(runq=RunQueue, cell=Cell)
    cdef int _drain(self) except -1
    @cython.locals(left=Py_ssize_t, head=int, buf=list, timed=bint, count=cython.ulonglong)
    cdef int _visit(self, Cell cell) except -1
    @cython.locals(lane=int, began=double, receipt=Receipt, order=HostOrder)
    cdef bint _look(self, Cell cell) except? False
    @cython.locals(task=HandlerTask)
    cdef bint _conclude(self, Cell cell, object result) except? False
    cpdef object _handle(self, Cell cell, object message)
    @cython.locals(began=double, is_done=bint)
    cdef bint _handle_within(self, Cell cell, object message) except? False
    @cython.locals(took=double)
    cdef _tell_if_slow(self, Cell cell, object message, double began)
    @cython.locals(task=HandlerTask, began=double)
    cdef bint _go_on(self, Cell cell) except? False
    @cython.locals(kind=int, behavior=BehaviorBase, receipt=Receipt)
    cdef _settle(self, Cell cell, object result)
    cdef int _leave(self, Cell cell) except -1
    cdef bint _has_more(self, Cell cell) except? False
    cpdef int in_hand(self, Cell cell)
    cdef _adapt(self, Py_ssize_t waiting)
    cdef int _note_large(self, Cell cell) except -1
    @cython.locals(cell=Cell)
    cdef _trim(self)

# As in `cell.pxd`. With a GIL there is no lock, so what is replaced may be dropped at once, as any assignment does.
cdef inline tuple guarded_hand(Visits visits):
    with cython.critical_section(visits):
        return visits.hand, visits.message

cdef inline int guard_hand(Visits visits, Cell hand) except -1:
    cdef Cell old
    if HAS_GIL:
        visits.hand = hand
        return 0
    with cython.critical_section(visits):
        old = visits.hand
        visits.hand = hand
    return 0

cdef inline int guard_message(Visits visits, object message) except -1:
    cdef object old
    if HAS_GIL:
        visits.message = message
        return 0
    with cython.critical_section(visits):
        old = visits.message
        visits.message = message
    return 0

# The references of the ring are passed on. What was in hand before may go with that, when the ring is in order again.
cdef inline void take_in_hand(Visits visits, Cell cell) noexcept:
    cdef PyObject *sender
    cdef PyObject *message = take_first(cell, &sender)
    if HAS_GIL:
        visits.message = pass_on(message)
    else:
        guard_message(visits, pass_on(message))
    visits.sender = pass_on(sender)

cdef inline object call_with_message(Visits visits, Cell cell):
    return call_handler(cell, <PyObject *>visits.message)
