cdef int TOLD

cdef class Receipt:
    cpdef object shown_sender(self)
    cpdef int origin(self) except -1
    cpdef bint live(self)
    cpdef settle(self, object result)
    cpdef fail(self, object cause)
    cpdef discard(self, object why)

cdef class _Notice(Receipt):
    pass
