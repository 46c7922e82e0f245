# C functions that several hot modules use. Nothing is compiled for this file itself.

from cpython.ref cimport PyObject

cdef extern from "pythread.h":
    unsigned long thread_ident "PyThread_get_thread_ident" ()

cdef extern from "Python.h":
    void untrack "PyObject_GC_UnTrack" (object)

# Moving an object out of, or into, a list's slot that is known to be there. Taking passes the slot's own reference on
# instead of making one and dropping the other, which saves a message some 30 instructions (callgrind, ping-pong).
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

# An object of a class without arguments, by way of the type's own slot: the interpreter's way costs three times as much.
cdef extern from *:
    """
    static PyObject *greenroom_no_arguments = NULL;
    static inline PyObject *greenroom_new_object(PyObject *type) {
        if (greenroom_no_arguments == NULL && (greenroom_no_arguments = PyTuple_New(0)) == NULL)
            return NULL;
        return ((PyTypeObject *)type)->tp_new((PyTypeObject *)type, greenroom_no_arguments, NULL);
    }
    """
    object new_object "greenroom_new_object" (object)
