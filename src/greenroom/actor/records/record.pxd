import cython
from cpython.ref cimport PyObject
from greenroom._core.mailbox.cell cimport Cell

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

cdef extern from "Python.h":
    void untrack "PyObject_GC_UnTrack" (object)

cdef bint COMPILED
cdef object NORMAL, SHUTDOWN, KILLED

cdef class Body:
    cdef readonly Cell cell
    cdef public object spec, watchers, more
    cdef public Family family
    cdef public int state
    cdef Body _next, _previous

cpdef move_in(Body body, Cell cell, object spec)

@cython.final
cdef class Family:
    cdef Body _first, _last
    cdef readonly Py_ssize_t count
    cdef readonly dict names
    cpdef require_free(self, str name, object parent)
    @cython.locals(last=Body)
    cpdef add(self, Body body, object name)
    cpdef put_before(self, Body body, Body younger)
    cpdef remove(self, Body body, object name)
    cdef _unlink(self, Body body)
    @cython.locals(last=Body)
    cpdef Body youngest(self)
    @cython.locals(body=Body)
    cpdef list bodies(self)

@cython.final
cdef class Obituary:
    cdef readonly object reason, name, parent, history
    cdef set_up(self, object reason, object name, object parent, object history)

@cython.locals(obituary=Obituary)
cpdef Obituary obituary_of(object reason, object name, object parent, object history)
