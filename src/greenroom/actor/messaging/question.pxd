import cython
cimport greenroom._core.generators
from greenroom._core.capi cimport COMPILED, thread_ident
from greenroom._core.current cimport ticking_here
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.scheduler.loop cimport Loop
from greenroom._core.scheduler.stepping cimport HandlerTask, Wait
from greenroom._core.scheduler.visits cimport Visits

cdef bint EAGER_TASKS
cdef int ASKED, INTERCEPTED, MAY_NOT_ASK, HELD, OPEN, ANSWERED, FAILED, GIVEN_UP, ESCALATED
cdef double LONGEST_DELAY
cdef dict current_handoffs
cdef object CancelledError, get_ident, get_running_loop, partial, as_lane, current_reader, _numbers, _TOO_LATE

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

@cython.locals(asker=Cell, target=Cell, is_near=bint)
cpdef tuple find_cycle(Question question)
cpdef object awaited_by(Cell cell)
cpdef wait_on_thread(Question question, object handoff)
cpdef bint was_left(Question question) except? False
cpdef bint is_waited_for(Question question) except? False
cpdef break_cycle(Question question)
cpdef forward_question(Question question, Cell target)
cpdef refuse_in_cycle(Question question, tuple refs)
cpdef end_in_cycle(Question question, tuple refs)

@cython.final
cdef class Asked(Question):
    cpdef future(self)
    cpdef _leave_with(self, object future)
    cdef object _future_here(self)
    cdef bint _is_asked_elsewhere(self) except? True
    cdef _future_elsewhere(self, object aio)
    cdef _ring_though_unstarted(self, object aio)
    cdef _note_retrieved(self)
    @cython.locals(visits=Visits)
    cdef bint _is_awaited_by_asker(self) except? False

@cython.locals(asker=Cell, home=Loop, loop=Loop, question=Asked, seconds=double)
cpdef Asked put_question(Cell cell, object message, object timeout, object lane, bint patiently)
cdef Asked _ask_from_outside(Loop loop, Cell cell, Asked question, object message, double seconds, object lane, bint patiently)
@cython.locals(asker=Cell)
cdef Asked _ask_from_another_loop(Loop home, Cell cell, Asked question, object message, double seconds, object lane, bint patiently)
cpdef Loop loop_here()
@cython.locals(cell=Cell, loop=Loop, is_foreign=bint)
cpdef send_question(Question question, object message, object lane, bint patiently)
@cython.locals(cell=Cell, loop=Loop)
cpdef _send_when_room(Question question, object message, object lane)
cpdef require_may_ask(Cell asker)
@cython.locals(seconds=double)
cpdef double seconds_of(object timeout) except? -2.0

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
