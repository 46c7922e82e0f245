import cython
from greenroom._core.mailbox.ring cimport Ring

cdef int LOG, DATA, MANAGEMENT, CONTROL

@cython.final
cdef class SideLane:
    cdef Ring messages, places

@cython.final
cdef class SideLanes:
    cdef SideLane control, management, log
    cdef readonly object arrived
    cdef public int passed
    cdef SideLane lane(self, int code)
    @cython.locals(lane=SideLane)
    cpdef int depth(self, int code)
    cpdef int total(self)
    @cython.locals(lane=SideLane)
    cpdef list senders(self)
    @cython.locals(lane=SideLane)
    cpdef int slots(self, int code)
    @cython.locals(lane=SideLane)
    cpdef push(self, int code, object message, object sender, object data_before)
    @cython.locals(lane=SideLane)
    cpdef put_back(self, int code, object message, object sender)
    cpdef object first_sender(self, int code)
    cpdef object first_place(self, int code)
    @cython.locals(lane=SideLane)
    cpdef object pop(self, int code)
