import cython
from greenroom._core.cell cimport Cell, Tally
from greenroom._core.door cimport Door
from greenroom._core.hooks cimport Hooks
from greenroom._core.inbound cimport Inbound
from greenroom._core.pace cimport Pace, counter
from greenroom._core.ring cimport take_slot
from greenroom._core.runqueue cimport RunQueue
from greenroom._core.slip cimport Slip
from greenroom._core.stepping cimport HandlerTask, Stepper
from greenroom._core.table cimport Table
from greenroom._core.timers cimport Timer, Timers

cdef bint COMPILED
cdef double LINGER, NEVER
cdef int HELD, ORDERS, RESUME
cdef int EMPTY, KEPT, NOTHING, MESSAGE, NOTICED, ORDERED
cdef object CoroutineType, SUSPENDED, NOTICE, _DATA, _DEFAULT_MAILBOX

@cython.final
cdef class Loop:
    cdef readonly object limits, clock, host
    cdef readonly Hooks hooks
    cdef readonly Table table
    cdef readonly Timers timers
    cdef readonly RunQueue runq
    cdef readonly Door door
    cdef readonly Inbound inbound
    cdef readonly Stepper stepper
    cdef readonly Pace pace
    cdef readonly Cell hand
    cdef readonly int kind
    cdef readonly object message, sender
    cdef readonly bint closed
    cdef readonly unsigned long long ended_sent, ended_handled
    cdef readonly long long adrift
    cdef bint _ticking, _out_of_time
    cdef double _tick_began
    cdef dict _large
    cdef readonly double trim_at
    cdef int _visits, _batch, _strained
    cdef int _per_visit, _per_tick

    cpdef double now(self) except? -1.0
    cpdef adopt(self)
    cdef _require_own_thread(self, str what)
    @cython.locals(cell=Cell)
    cpdef Cell spawn(self, object handler, object subject=*, object mailbox=*, bint exempt=*)
    cpdef retire(self, Cell cell, object why=*)
    @cython.locals(task=HandlerTask, tally=Tally)
    cpdef abandon(self, Cell cell)
    cpdef int in_hand(self, Cell cell)
    @cython.locals(timer=Timer)
    cpdef Timer start_timer(self, double delay, Cell target, object message, double interval=*, bint fixed_rate=*, Cell owner=*)
    cpdef cancel_timers(self, Cell cell)
    @cython.locals(timer=Timer, target=Cell, fired=int)
    cdef _fire_due(self, double now)
    @cython.locals(waiting=Py_ssize_t, now=double)
    cpdef tick(self)
    cpdef run_until_idle(self)
    cpdef bint has_work(self)
    @cython.locals(runq=RunQueue, cell=Cell)
    cdef int _drain(self) except -1
    @cython.locals(left=int, head=int, buf=list, timed=bint)
    cdef int _visit(self, Cell cell) except -1
    @cython.locals(lane=int, began=double, took=double)
    cdef bint _look(self, Cell cell) except? False
    @cython.locals(task=HandlerTask)
    cdef bint _conclude(self, Cell cell, object result) except? False
    @cython.locals(task=HandlerTask)
    cdef bint _go_on(self, Cell cell) except? False
    @cython.locals(kind=int)
    cdef _settle(self, Cell cell, object result)
    cdef int _leave(self, Cell cell) except -1
    cdef int _note_large(self, Cell cell) except -1
    @cython.locals(cell=Cell)
    cdef _trim(self)
    cpdef _resume(self, Cell cell)
    @cython.locals(cell=Cell, kind=int, tally=Tally)
    cdef _fail(self, object cause)
    cdef _adapt(self, Py_ssize_t waiting)
    cpdef close(self)
