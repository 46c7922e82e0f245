import cython
cimport greenroom._core.generators
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.records.record cimport ActorRecord

cdef int CREATED, STARTING, RESTING, PAUSE, STOP, KILL_AND_RESTART, KILL
cdef tuple COMES_BACK, GOES_DOWN
cdef object HALT, FORCED, KILLED, SHUTDOWN, Alias

@cython.locals(stage=int, is_first=bint, comes_back=bint, is_new=bint, event=int)
cpdef object end(object life, Cell cell, ActorRecord record, object reason)
cpdef object close(object life, Cell cell, ActorRecord record)
cpdef object pre_stop(object life, Cell cell, ActorRecord record)
cpdef object drain_all(object life, Cell cell, ActorRecord record)
cpdef object end_children(object life, Cell cell, ActorRecord record)
cpdef object kill_children(object life, Cell cell, ActorRecord record)
cdef object _end_children(object life, Cell cell, ActorRecord record, object reason)
cpdef object post_stop(object life, Cell cell, ActorRecord record)
cpdef object finish(object life, Cell cell, ActorRecord record)
