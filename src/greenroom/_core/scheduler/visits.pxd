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
from greenroom._core.scheduler.inhand cimport InHand, guard_hand, guard_message
from greenroom._core.scheduler.stepping cimport HandlerTask, Stepper
from greenroom._core.behavior cimport BehaviorBase, is_generator

cdef double LINGER, NEVER
cdef int OFFLOADED, HELD, ORDERS, PROPAGATES, RECEIPTS, RESUME, ROOM, NOTED, NOTIFY_TAKEN
cdef int ENDED_IN_HAND, _UNTIMED
cdef int EMPTY, DATA, KEPT, NOTHING, MESSAGE, NOTICED, ORDERED
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
cdef class Visits(InHand):
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
    cdef _take_generator(self, Cell cell, object result)
    cdef int _leave(self, Cell cell) except -1
    cdef bint _has_more(self, Cell cell) except? False
    cpdef int in_hand(self, Cell cell)
    cdef _adapt(self, Py_ssize_t waiting)
    cdef int _note_large(self, Cell cell) except -1
    @cython.locals(cell=Cell)
    cdef _trim(self)

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
