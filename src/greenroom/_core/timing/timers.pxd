import cython
from greenroom._core.capi cimport COMPILED, thread_ident, untrack
from greenroom._core.timing.tickbudget cimport TickBudget
from greenroom._core.runqueue cimport RunQueue
from greenroom._core.receipt cimport Receipt, Told

cdef double BUCKETS_PER_SECOND
cdef int NEW, PENDING, QUEUED, OVER, TICKED
cdef Py_ssize_t TRACKED
cdef object _DATA, _deadline, insort_right, heapify, ceil, get_ident, heappop, heappush, partial

cdef class Alarm(Receipt):
    cdef public double deadline
    cdef int _state
    cdef Py_ssize_t _position
    cdef Bucket _bucket
    cpdef set_up_alarm(self, double deadline)
    cpdef ring(self, object admission)
    cpdef end(self)
    cpdef disarm(self, Timers timers)

@cython.final
cdef class Timer(Alarm):
    cdef readonly double interval
    cdef readonly bint fixed_rate
    cdef readonly unsigned long long skipped
    cdef readonly object target, message, owner
    cdef object _sender
    cdef Timers timers
    cdef Timer _next, _previous
    cpdef set_up(
        self,
        Timers timers,
        object target,
        object message,
        double deadline,
        double interval,
        bint fixed_rate,
        object owner,
    )
    cdef _join(self, Timer first)
    cdef _after_tick(self)
    @cython.locals(late=double, missed="long long")
    cdef _skip_missed(self)
    @cython.locals(timers=Timers)
    cpdef bint cancel(self)

@cython.final
cdef class Bucket:
    cdef long long key
    cdef double earliest
    cdef Py_ssize_t live, used
    cdef list alarms

@cython.final
cdef class Timers:
    cdef readonly Py_ssize_t limit, count
    cdef readonly bint closed
    cdef public list others
    cdef RunQueue _runq
    cdef TickBudget _tick_budget
    cdef dict _buckets
    cdef list _keys, _due
    cdef Py_ssize_t _position
    cdef Bucket _recent
    cdef long long _opened
    cpdef double now(self) except? -1.0
    @cython.locals(mine=bint)
    cpdef bint is_own_thread(self)
    cpdef object ask_owner(self, object action)
    cpdef require_room(self)
    @cython.locals(deadline=double, bucket=Bucket, due=list, last=Alarm, key="long long")
    cpdef add(self, Alarm timer)
    @cython.locals(last=Bucket, bucket=Bucket)
    cdef Bucket _bucket_of(self, long long key, double deadline)
    @cython.locals(bucket=Bucket)
    cpdef remove(self, Alarm timer)
    cdef _discard(self, Bucket bucket)
    @cython.locals(timer=Alarm, position=Py_ssize_t)
    cdef _close_holes(self, Bucket bucket)
    @cython.locals(timer=Alarm, bucket=Bucket)
    cpdef Alarm pop_due(self, double now)
    @cython.locals(timer=Alarm)
    cdef _open(self, Bucket bucket)
    cdef _pass(self)
    @cython.locals(timer=Alarm, bucket=Bucket)
    cpdef object next_deadline(self)
    @cython.locals(bucket=Bucket)
    cpdef clear(self)
    @cython.locals(timer=Alarm)
    cdef _end_all(self, list alarms)
