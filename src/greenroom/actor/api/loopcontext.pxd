import cython
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.receipt cimport Receipt
from greenroom._core.scheduler.host cimport HostBase
from greenroom._core.scheduler.loop cimport Loop
from greenroom._core.scheduler.visits cimport Visits
from greenroom.actor.messaging.address cimport Address
from greenroom.actor.records.record cimport ActorRecord

cdef int MESSAGE
cdef object _DATA, Context

@cython.locals(loop=Loop, visits=Visits)
cdef object shown_sender(Cell cell)
@cython.locals(loop=Loop, visits=Visits, sender=Address)
cdef bint tell_sender(Cell cell, object value) except? False

@cython.locals(loop=Loop)
cdef HostBase host_of(Cell cell)

cdef class LoopRecord(ActorRecord):
    pass
