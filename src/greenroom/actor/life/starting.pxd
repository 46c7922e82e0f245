import cython
cimport greenroom._core.generators
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.records.record cimport ActorRecord

cdef int NOTIFY_TAKEN
cdef object SHUTDOWN, Actor

@cython.locals(was_told=bint)
cpdef object pre_start(object life, Cell cell, ActorRecord record)
cpdef object after_pre_start(object life, Cell cell, bint was_told)
cpdef object post_start(object life, Cell cell, ActorRecord record)
cpdef object run(object life, Cell cell, ActorRecord record)
