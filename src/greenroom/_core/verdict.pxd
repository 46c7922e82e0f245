cdef class Verdict:
    pass

cdef class _Unhandled(Verdict):
    pass
