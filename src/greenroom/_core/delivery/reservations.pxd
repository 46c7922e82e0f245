import cython
from greenroom._core.capi cimport COMPILED
from greenroom._core.fastrlock cimport FastRLock
from greenroom._core.mailbox.cell cimport Cell, add_reserved
from greenroom._core.runqueue cimport InboundBase

cdef int OFFLOADED
cdef object NOTICE, _DATA

@cython.locals(previous=int, before=int)
cpdef int change_reserved(Cell cell, int change) noexcept

@cython.final
cdef class Parked:
    cdef object entries
    cdef int messages
    @cython.locals(position=Py_ssize_t)
    cdef tuple displace(self)

cdef class Reservations(InboundBase):
    cdef FastRLock _lock
    cdef dict _reserved, _parked, _refused
    cdef bint _reserve(self, Cell cell, object lane) except? True
    cdef bint _is_done_with_some(self, Cell cell) except? True
    cdef _count_refused(self, Cell cell, bint rejected)
    @cython.locals(counts=list)
    cdef list _counts_for(self, Cell cell)
    cpdef bint reserve(self, Cell cell, object lane) except? True
    cpdef unreserve(self, Cell cell, object lane)
    cpdef int reserved(self, Cell cell, object lane)
    @cython.locals(parked=Parked)
    cdef tuple _unpark(self, Cell cell, object lane)
    @cython.locals(parked=Parked, total=Py_ssize_t)
    cdef Py_ssize_t _count_parked(self, Cell cell)
