import cython

cdef int TOLD

cdef class Receipt:
    cpdef object shown_sender(self)
    cpdef int origin(self) except -1
    cpdef object propagated(self)
    cpdef propagate(self, object values)
    cpdef bint live(self)
    cpdef settle(self, object result)
    cpdef fail(self, object cause)
    cpdef discard(self, object why)

@cython.final
cdef class Piped(Receipt):
    cdef object _ref, _values

cpdef bint is_from_itself(object sender, object own)

@cython.final
cdef class Told(Receipt):
    cdef object _sender, _values

cdef class _Notice(Receipt):
    pass
