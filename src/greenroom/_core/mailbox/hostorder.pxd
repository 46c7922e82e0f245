import cython

@cython.final
cdef class HostOrder:
    cdef readonly int what
    cdef readonly str name
