import cython
from cpython.ref cimport PyObject
from greenroom._core.cell cimport Cell
from greenroom._core.loop cimport Loop
from greenroom._core.slip cimport Slip
from greenroom.actor.address cimport Address
from greenroom.actor.body cimport Body, Family

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

cdef bint COMPILED
cdef int MESSAGE, CLASS
cdef int CREATED, STARTING, RUNNING, STOPPING, STOPPED, FAILED, TERMINATED
cdef object get_ident, STOP_IN_ORDER

@cython.final
cdef class Obituary:
    cdef readonly object reason, name, parent, history

@cython.final
cdef class Lifecycle:
    cdef readonly object port
    cdef readonly Loop loop
    cdef public object settings
    cdef readonly Family top
    cdef public Cell root
    cdef public bint closed
    cdef readonly unsigned long long spawned, terminated
    cdef public unsigned long long late_replies
    cdef readonly dict forced
    cdef object _start_order, _stop_order, _shutdown_order, _kill_order, _close_order
    cpdef serve(self, Loop loop)
    @cython.locals(family=Family, cell=Cell, ref=Address, body=Body)
    cpdef object spawn(self, object spec, object parent, object name, object mailbox, object settings, object drain)
    @cython.locals(ref=Address)
    cdef Address _new_ref(self, Cell cell, object name, object parent)
    cdef Family _family_of(self, Address parent)
    cpdef enter(self, Body body, int state)
    @cython.locals(body=Body)
    cpdef object _start(self, Cell cell)
    cpdef begin_to_run(self, Cell cell, Body body)
    cpdef request_end(self, Cell cell, object reason)
    cpdef object _stop(self, Cell cell)
    cpdef object _shut_down(self, Cell cell)
    cpdef object _kill(self, Cell cell)
    @cython.locals(body=Body)
    cpdef object _end(self, Cell cell, object reason)
    @cython.locals(ref=Address, parent=Address, family=Family)
    cpdef finish(self, Cell cell, Body body, object reason)
    cdef _tell_system(self, Cell cell, object reason)
    @cython.locals(body=Body)
    cdef _tell_parent(self, Cell cell, Address ref, object reason)
    cpdef set_deadline(self, Cell cell, Body body)
    cpdef clear_deadline(self, Body body)
