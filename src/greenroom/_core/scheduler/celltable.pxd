import cython
cimport greenroom._core.generators
from greenroom._core.mailbox.cell cimport Cell

cdef int SLOT_BITS
cdef long long _SLOT_MASK, _LAST_GENERATION

@cython.final
cdef class CellTable:
    cdef readonly Py_ssize_t limit, counted
    cdef list _slots, _free
    @cython.locals(slot=Py_ssize_t, generation="long long")
    cpdef long long add(self, Cell cell, bint exempt=*) except? 0
    @cython.locals(slot=Py_ssize_t)
    cpdef Cell find(self, object cell_id)
    @cython.locals(slot=Py_ssize_t, generation="long long")
    cpdef remove(self, Cell cell)
