import cython
from greenroom._core.capi cimport COMPILED
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.messaging.question cimport Question, guard_target

cdef int ESCALATED, FAILED, HELD, OPEN
cdef object partial

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
