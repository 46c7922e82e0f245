import cython
from greenroom._core.capi cimport COMPILED
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.runqueue cimport RunQueue
from greenroom._core.scheduler.stepping cimport HandlerTask
from greenroom.actor.messaging.question cimport Question, guard_target

cdef int FAILED, HELD, OPEN
cdef object partial

@cython.locals(followed=Question, cell=Cell, asker=Cell, task=HandlerTask, passed=set, runq=RunQueue)
cpdef tuple find_cycle(Question question)
cpdef break_cycle(Question question)
cpdef bint is_waited_for(Question question) except? False
cpdef wait_on_thread(Question question, object handoff)
cpdef bint was_left(Question question) except? False
cpdef forward_question(Question question, Cell target)
cpdef refuse_in_cycle(Question question, tuple refs)
cpdef end_in_cycle(Question question, tuple refs)
