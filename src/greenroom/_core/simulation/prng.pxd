import cython

cdef unsigned long long STEP, FIRST, SECOND, ALL_BITS
cdef double _FRACTION

@cython.final
cdef class SplitMix:
    cdef unsigned long long _state
    @cython.locals(bits=cython.ulonglong)
    cpdef unsigned long long draw(self)
    cpdef long long below(self, long long bound)
    cpdef double fraction(self)
    cpdef SplitMix fork(self)
