import cython
from cpython.ref cimport PyObject
from greenroom._core.capi cimport greenroom_move, greenroom_put, greenroom_take, is_tracked, untrack

cdef bint COMPILED
cdef Py_ssize_t SMALLEST
cdef Py_ssize_t KEPT

cdef class Ring:
    cdef list buf
    cdef readonly int mask, head, count
    cpdef set_up_ring(self)
    @cython.locals(tail=int, buf=list)
    cpdef push(self, object message, object sender)
    @cython.locals(head=int, buf=list)
    cpdef push_front(self, object message, object sender)
    cpdef object first_sender(self)
    @cython.locals(head=int, buf=list)
    cpdef object pop(self)
    cpdef object message_at(self, int position)
    cpdef object sender_at(self, int position)
    @cython.locals(messages=list, senders=list, buf=list, slot=int, last=int)
    cpdef tuple peek(self, int position, int most)
    @cython.locals(buf=list, slot=int, before=int)
    cpdef object remove(self, int position)
    @cython.locals(old=list, new=list)
    cpdef grow(self)
    cpdef trim(self)

# The slots are named by a borrowed pointer: nothing can replace the list in between.
cdef inline object take_slot(Ring ring, Py_ssize_t index):
    return greenroom_take(<PyObject *>ring.buf, index)

cdef inline void put_slot(Ring ring, Py_ssize_t index, object value) noexcept:
    greenroom_put(<PyObject *>ring.buf, index, value)

# As `put_slot`, with the reference that `where` has.
cdef inline void move_to_slot(Ring ring, Py_ssize_t index, PyObject **where) noexcept:
    greenroom_move(<PyObject *>ring.buf, index, where)
