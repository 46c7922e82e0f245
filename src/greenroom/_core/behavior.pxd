cdef object GeneratorType, AsyncGeneratorType

cdef class BehaviorBase:
    cdef readonly bint unhandled

cpdef bint is_generator(object result)
