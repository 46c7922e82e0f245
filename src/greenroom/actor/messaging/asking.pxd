import cython
from greenroom._core.capi cimport thread_ident
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.scheduler.loop cimport Loop
from greenroom.actor.messaging.question cimport Question, current_handoff

cdef bint COMPILED
cdef double LONGEST_DELAY
cdef object as_lane, get_ident, get_running_loop, partial

cpdef Question put_question(Cell cell, object message, object timeout, object lane)
cdef Question _put(Loop loop, Cell cell, Question question, object message, double seconds, object lane)
@cython.locals(seconds=double, question=Question, loop=Loop)
cpdef Question put_patiently(Cell cell, object message, object timeout, object lane)
cpdef _wait_for_room(Question question, object message, object lane)
cdef Question _ask_from_outside(Loop loop, Cell cell, Question question, object message, double seconds, object lane, bint wait_for_room=*)
cpdef send_from_outside(Loop loop, Cell cell, Question question, object message, object lane, bint wait_for_room)
cpdef send_patiently(Loop loop, Cell cell, Question question, object message, object lane)
@cython.locals(seconds=double)
cpdef double seconds_of(object timeout) except? -2.0
