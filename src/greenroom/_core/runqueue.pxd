import cython
from cpython.ref cimport PyObject
from greenroom._core.capi cimport greenroom_put, greenroom_take

cdef bint COMPILED

cdef class AdmissionBase:
    cpdef admit(self, object cell, object message, object sender, object lane)

cdef class InboundBase:
    cpdef tell(self, object cell, object message, object sender, object lane)
    cpdef offer(self, object cell, object message, object sender, object lane)

@cython.final
cdef class RunQueue:
    cdef readonly unsigned long thread
    cdef list buf
    cdef readonly Py_ssize_t mask, head, count
    cdef public object speaker, rouse
    cdef public InboundBase inbound
    cdef public AdmissionBase admission
    cdef public bint asleep
    cdef object __weakref__
    cpdef int push(self, object cell) except -1
    cpdef make_room(self, Py_ssize_t cells)
    cpdef wake(self)
    @cython.locals(head=Py_ssize_t)
    cpdef object take(self)
    cpdef object at(self, Py_ssize_t position)
    cpdef bring_forward(self, Py_ssize_t position)
    @cython.locals(old=list, new=list)
    cdef _grow(self)

cdef inline object take_cell(RunQueue runq, Py_ssize_t index):
    return greenroom_take(<PyObject *>runq.buf, index)

cdef inline void put_cell(RunQueue runq, Py_ssize_t index, object cell) noexcept:
    greenroom_put(<PyObject *>runq.buf, index, cell)
