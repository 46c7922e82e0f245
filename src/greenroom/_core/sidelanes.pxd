import cython
from greenroom._core.ring cimport Ring

cdef int LOG, DATA, MANAGEMENT, CONTROL

@cython.final
cdef class SideLanes:
    cdef Ring control, management, log
    cdef readonly object arrived
    cdef public int passed
    cpdef Ring ring(self, int lane)
    @cython.locals(ring=Ring)
    cpdef int depth(self, int lane)
    cpdef int total(self)
    @cython.locals(ring=Ring)
    cpdef push(self, int lane, object message, object sender, object data_before)
    cpdef object first_sender(self, int lane)
    cpdef object first_place(self, int lane)
    @cython.locals(ring=Ring)
    cpdef object pop(self, int lane)
