import cython

@cython.final
cdef class VirtualClock:
    cdef readonly double time
    cpdef double now(self)
    cpdef move_to(self, double moment)
