import cython
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.messaging.question cimport put_question

cdef extern from *:
    """
    static inline PyObject *greenroom_own_method(PyObject *type, PyObject *method) {
        return PyDescr_NewMethod((PyTypeObject *)type, ((PyMethodDescrObject *)method)->d_method);
    }
    """
    object own_method "greenroom_own_method" (object, object)

cdef bint COMPILED
cdef object _DATA

cdef class Address:
    cdef readonly Cell _cell
    cdef readonly object _name
    cdef readonly Address _parent
    cdef object __weakref__

cpdef direct(Address ref, Cell cell, object name, Address parent)
