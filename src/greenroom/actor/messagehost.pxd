import cython
cimport greenroom._core.generators
from greenroom._core.capi cimport COMPILED, new_object, thread_ident
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.scheduler.host cimport HostBase
from greenroom._core.scheduler.loop cimport Loop
from greenroom.actor.messaging.address cimport Address

cdef int ENDED
cdef object ActorRef, SAME, STOPPED_BEHAVIOR

cdef class MessageHost(HostBase):
    cdef readonly object port
    cdef readonly Loop loop
    cdef readonly object pickled
    cdef public object poller
    cpdef serve(self, Loop loop)
    @cython.locals(foreign=bint)
    cpdef bint is_foreign(self)
    @cython.locals(ref=Address)
    cdef Address _new_ref(self, Cell cell, object name, object parent)
