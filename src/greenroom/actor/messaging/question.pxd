import cython
from greenroom._core.capi cimport COMPILED, thread_ident
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.scheduler.loop cimport Loop
from greenroom._core.scheduler.stepping cimport HandlerTask, Wait

cdef int ASKED, INTERCEPTED, OPEN, ANSWERED, FAILED, GIVEN_UP
cdef dict current_handoffs
cdef object CancelledError, get_ident, partial, _numbers, _TOO_LATE

# Not here: what other modules hand on as a callback (`_leave`, `is_let_in`). Cython would make a function of the C method,
# with a signature that newer compilers refuse.
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
    cdef object _book, _propagated, _handoff
    cdef bint _is_late
    cdef readonly long long number
    cpdef set_up(self, Loop loop, Cell target, Cell asker, double timeout)
    cpdef tell_future(self, object future, object aio)
    cpdef bint done(self)
    @cython.locals(target=Cell)
    cpdef Cell peek_target(self)
    cpdef restore_traceback(self, object exc)
    cpdef _give_up(self)
    cdef _note_awaited(self)
    cdef bint _is_worth_telling(self) except? True
    cpdef is_asked_now(self)
    cdef _close(self, int status, object value)
    cpdef defer(self, dict book)
    cdef bint _note_book(self, dict book) except? False
    cdef bint _respondent_lives_on(self) except? True
    cpdef end_with(self, object reason)
    cpdef break_off(self, object cause, object happened)
    cdef object _terminated(self, object reason, object cause)
    cdef bint _goes_elsewhere(self, object method, object value) except? False
    cpdef answer(self, object value)
    cpdef _take_answer(self, object value)
    cpdef refuse(self, object error)
    cpdef _take_refusal(self, object error)
    cdef _end(self, int status, object value)
    @cython.locals(task=HandlerTask)
    cpdef _touch_asker(self)
    cpdef _tell_future(self)
    @cython.locals(target=Cell)
    cpdef _is_too_late(self, object value)
    cpdef arm(self)

cpdef object current_handoff(Loop loop)

# As in `cell`: what is replaced is dropped after the lock is given up.
cdef inline Cell guarded_target(Question question):
    with cython.critical_section(question):
        return question.target

cdef inline int guard_target(Question question, Cell target) except -1:
    cdef Cell old
    with cython.critical_section(question):
        old = question.target
        question.target = target
    return 0

# Whether it is open, and stands in this book from now on.
cdef inline bint guard_book(Question question, object book) except? False:
    cdef object old
    with cython.critical_section(question):
        if question._status == OPEN:
            old = question._book
            question._book = book
            return True
    return False

# Ends it, and takes the book that it stood in.
cdef inline object guard_end(Question question, int status):
    cdef object book
    with cython.critical_section(question):
        question._status = status
        book = question._book
        question._book = None
    return book
