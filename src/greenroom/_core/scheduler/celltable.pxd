import cython
cimport greenroom._core.generators
from greenroom._core.mailbox.cell cimport Cell

cdef int SLOT_BITS
cdef long long _SLOT_MASK, _LAST_GENERATION, BLOCK_BITS, _IN_BLOCK

@cython.final
cdef class SlotBlocks:
    cdef object _lock
    cdef list _owners
    cdef readonly list tables
    cpdef Py_ssize_t take(self, CellTable table, Py_ssize_t own) except -1
    @cython.locals(block=Py_ssize_t)
    cpdef CellTable owner(self, object cell_id)
    cpdef Py_ssize_t place(self, Py_ssize_t slot) except -1
    @cython.locals(table=CellTable, total=Py_ssize_t)
    cpdef Py_ssize_t counted(self) except -1

@cython.final
cdef class CellTable:
    cdef readonly Py_ssize_t limit, counted
    cdef SlotBlocks _blocks
    cdef list _slots, _free, _numbers
    @cython.locals(place=Py_ssize_t)
    cpdef share(self, SlotBlocks blocks)
    @cython.locals(own=Py_ssize_t)
    cdef Py_ssize_t _number(self, Py_ssize_t place) except -1
    @cython.locals(slot=Py_ssize_t, generation="long long")
    cpdef long long add(self, Cell cell, bint exempt=*) except? 0
    @cython.locals(slot=Py_ssize_t)
    cpdef Cell find(self, object cell_id)
    @cython.locals(slot=Py_ssize_t, generation="long long")
    cpdef remove(self, Cell cell)
