from greenroom._core.mailbox.cell cimport Cell

cdef class HostBase:
    cpdef object carry_out(self, Cell cell, int what)
    cpdef behavior_returned(self, Cell cell, object behavior)
    cpdef object spawn_child(self, Cell parent, object factory, tuple args)
