import cython
cimport greenroom._core.generators
from greenroom._core.capi cimport COMPILED, thread_ident
from greenroom._core.current cimport ticking_here
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.scheduler.loop cimport Loop
from greenroom._core.scheduler.visits cimport Visits
from greenroom.actor.messaging.cycles cimport find_cycle, wait_on_thread
from greenroom.actor.messaging.question cimport Question, current_handoff

cdef bint EAGER_TASKS
cdef int ANSWERED, INTERCEPTED, MAY_NOT_ASK, OPEN
cdef double LONGEST_DELAY
cdef dict current_handoffs
cdef object as_lane, current_reader, get_ident, get_running_loop, partial

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

cpdef Asked put_question(Cell cell, object message, object timeout, object lane, bint patiently)
@cython.locals(asker=Cell)
cdef Asked _put(Loop loop, Cell cell, Asked question, object message, double seconds, object lane, bint patiently)
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
