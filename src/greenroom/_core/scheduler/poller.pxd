import cython
cimport greenroom._core.generators
from greenroom._core.scheduler.loop cimport Loop

cdef double inf, _LONGEST_SLEEP, _LONG_ENOUGH

cdef class Poller:
    cdef readonly Loop loop
    cdef object _aio, _soon, _later, _watches, _context, _callback
    cdef readonly object _place
    cdef double _later_at, _switch_interval, _busy_since
    cdef unsigned long _thread
    cdef bint _is_manual
    cdef list _idle
    cdef public object after_tick
    cdef public bint is_timeline
    cdef object __weakref__
    cpdef _tick_soon(self)
    cpdef _tick_due(self)
    @cython.locals(loop=Loop, took_in=bint)
    cpdef _tick(self)
    @cython.locals(loop=Loop, moment=double)
    cdef _next(self, bint took_in)
    @cython.locals(now=double)
    cdef _let_others_run(self)
    @cython.locals(now=double)
    cdef _set_alarm(self, double moment)
    cpdef _wake_up(self)
    cpdef bint is_idle(self)
    cdef _tell_idle(self)
