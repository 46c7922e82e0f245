from greenroom._core.capi cimport COMPILED, fence
from greenroom._core.delivery.reservations cimport Reservations

cdef class Rousable(Reservations):
    cdef readonly bint closed, sleeping, bell
    cdef public object rouse
    cpdef bint waiting(self)
    cpdef bint has_brought(self)
    cpdef ring_bell(self)
    cpdef still_bell(self)
    cpdef bint fall_asleep(self)
    cpdef wake(self)
    cpdef rouse_by(self, object rouse)
    cdef _end_sleep(self)
    cdef object _take_rouse(self)
