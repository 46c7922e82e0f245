from greenroom._core.mailbox.cell cimport Cell

cdef class HostBase:
    cpdef behavior_returned(self, Cell cell, object behavior)
    cpdef object spawn_child(self, Cell parent, object factory, tuple args)
