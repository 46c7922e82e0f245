import cython
cimport greenroom._core.generators
from greenroom._core.mailbox.cell cimport Cell

cdef int ROOM
cdef object deque
cdef tuple _LANES

@cython.final
cdef class Waiter:
    cdef readonly object message, sender, lane, finish, claim

@cython.final
cdef class WaitingLine:
    cdef dict _lines
    cpdef bint is_empty(self, Cell cell, object lane) except? True
    cpdef join(self, Cell cell, Waiter waiter)
    cpdef leave(self, Cell cell, Waiter waiter)
    cpdef Waiter pop(self, Cell cell, object lane)
    cpdef list dissolve(self, Cell cell)
    cdef _close_if_empty(self, Cell cell, object lane, object line)
