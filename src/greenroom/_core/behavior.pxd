cdef class BehaviorBase:
    cdef readonly bint unhandled
