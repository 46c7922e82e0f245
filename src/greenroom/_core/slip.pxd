cdef class Slip:
    cdef public object sender
    cpdef bint live(self)
    cpdef settle(self, object result)
    cpdef fail(self, object cause)
    cpdef discard(self, object why)

cdef class _Notice(Slip):
    pass
