import cython

cdef object get_ident, _MACHINE, MonotonicClock

cdef class World:
    cdef readonly bint is_real
    cdef public object threads

@cython.final
cdef class VirtualClock:
    cdef readonly double time
    cpdef double now(self)
