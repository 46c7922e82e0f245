import cython
from greenroom._core.cell cimport Cell
from greenroom._core.door cimport Door

cdef object _DATA, _REJECT, _DROP_OLD, _NOTICE, _ORDER, _PARKED

@cython.final
cdef class Inbound:
    cdef Door _door
    cdef object _lock, _acquire, _release
    cdef list _brought
    cdef dict _reserved, _parked, _refused
    cdef readonly bint closed, sleeping
    cdef public object rouse
    cpdef bint waiting(self)
    @cython.locals(entry=tuple, displaced=tuple, admitted=bint, stopped=bint)
    cpdef offer(self, Cell cell, object message, object sender, object lane)
    cdef _refuse(self, Cell cell, object message, object sender, object lane)
    cpdef notify(self, Cell cell, object notice)
    cpdef order(self, Cell cell, object action)
    cdef _bring(self, tuple entry)
    cdef _append(self, tuple entry)
    cdef bint _reserve(self, Cell cell, object lane) except? True
    cdef tuple _park(self, Cell cell, object lane, object message, object sender)
    cdef _count_refused(self, Cell cell, bint rejected)
    @cython.locals(late=list, fresh=list, brought=list, first=Py_ssize_t, cell=Cell)
    cpdef take_in(self)
    cpdef int reserved(self, Cell cell, object lane)
    cpdef bint fall_asleep(self)
    cpdef wake(self)
    cpdef close(self)
