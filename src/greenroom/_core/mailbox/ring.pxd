import cython
from cpython.ref cimport PyObject

# Moving an object out of, or into, a slot that is known to be there. Taking passes the slot's own reference on instead
# of making one and dropping the other, which saves a message some 30 instructions (callgrind, ping-pong).
cdef extern from *:
    """
    static inline PyObject *greenroom_take(PyObject *slots, Py_ssize_t index) {
        PyObject *value = PyList_GET_ITEM(slots, index);
        Py_INCREF(Py_None);
        PyList_SET_ITEM(slots, index, Py_None);
        return value;
    }
    static inline void greenroom_put(PyObject *slots, Py_ssize_t index, PyObject *value) {
        PyObject *free_slot = PyList_GET_ITEM(slots, index);
        Py_INCREF(value);
        PyList_SET_ITEM(slots, index, value);
        Py_DECREF(free_slot);
    }
    """
    object greenroom_take(PyObject *slots, Py_ssize_t index)
    void greenroom_put(PyObject *slots, Py_ssize_t index, object value)

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
