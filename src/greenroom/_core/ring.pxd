import cython

cdef Py_ssize_t SMALLEST
cdef Py_ssize_t KEPT

cdef class Ring:
    cdef list buf
    cdef readonly int mask, head, count
    @cython.locals(tail=int, buf=list)
    cpdef push(self, object message, object sender)
    cpdef object first_sender(self)
    @cython.locals(head=int, buf=list)
    cpdef object pop(self)
    cpdef object message_at(self, int position)
    cpdef object sender_at(self, int position)
    @cython.locals(buf=list, slot=int, before=int)
    cpdef object remove(self, int position)
    @cython.locals(old=list, new=list)
    cpdef grow(self)
    cpdef trim(self)
