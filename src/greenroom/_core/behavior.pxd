cdef class Verdict:
    cdef readonly bint unhandled
