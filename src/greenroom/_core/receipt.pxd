cdef class Slip:
    cpdef object shown_sender(self)
    cpdef bint live(self)
    cpdef settle(self, object result)
    cpdef fail(self, object cause)
    cpdef discard(self, object why)

cdef class _Notice(Slip):
    pass
