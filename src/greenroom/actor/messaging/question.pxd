import cython
from greenroom._core.capi cimport thread_ident
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.scheduler.loop cimport Loop
from greenroom._core.scheduler.stepping cimport HandlerTask, Wait

cdef bint COMPILED
cdef int ASKED, HELD, INTERCEPTED, OPEN, ANSWERED, FAILED, GIVEN_UP
cdef dict current_handoffs
cdef object CancelledError, get_ident, partial, _TOO_LATE

cdef class Question(Wait):
    cdef Loop _loop
    cdef readonly Cell target
    cdef readonly Cell asker
    cdef readonly double timeout
    cdef int _status
    cdef object _value, _traceback, _never_awaited
    cdef object _aio
    cdef readonly object _future
    cdef public bint replied
    cdef object _book, _brought, _handoff
    cdef bint _is_late
    cpdef set_up(self, Loop loop, Cell target, Cell asker, double timeout)
    cpdef tell_future(self, object future, object aio)
    cpdef bint done(self)
    cpdef restore_traceback(self, object exc)
    cpdef _give_up(self)
    cdef _note_awaited(self)
    cdef bint _is_worth_telling(self) except? True
    cpdef _is_waited_for_by(self, object handoff)
    @cython.locals(is_waited_for=bint)
    cpdef _break_cycle(self)
    cpdef _leave(self)
    cdef _close(self, int status, object value)
    cpdef defer(self, dict book)
    cpdef hand_to(self, Cell target)
    @cython.locals(question=Question, cell=Cell, asker=Cell, task=HandlerTask, passed=set)
    cdef tuple _find_cycle(self)
    cpdef end_with(self, object reason)
    cpdef break_off(self, object cause, object happened)
    cdef object _terminated(self, object reason, object cause)
    cdef bint _goes_elsewhere(self, object method, object value) except? False
    cpdef answer(self, object value)
    cpdef _take_answer(self, object value)
    cpdef refuse(self, object error)
    cpdef _take_refusal(self, object error)
    cdef _end(self, int status, object value)
    cpdef _touch_asker(self)
    cpdef _tell_future(self)
    cpdef _is_too_late(self, object _)
    cpdef _ring_unstarted(self)
    cpdef is_let_in(self, object error)
    cpdef arm(self)

cpdef object current_handoff(Loop loop)
