import cython
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.messaging.asking cimport put_patiently, put_question

cdef extern from *:
    """
    /* The definition and its text are never freed: like those of any compiled method, they last as long as the process. */
    static inline PyObject *greenroom_own_method(PyObject *type, PyObject *method, PyObject *doc) {
        const char *text = PyBytes_AsString(doc);
        PyMethodDef *definition = text ? (PyMethodDef *)PyMem_Malloc(sizeof(PyMethodDef)) : NULL;
        if (definition == NULL) return text ? PyErr_NoMemory() : NULL;
        *definition = *((PyMethodDescrObject *)method)->d_method;
        definition->ml_doc = text;
        Py_INCREF(doc);
        return PyDescr_NewMethod((PyTypeObject *)type, definition);
    }
    """
    object own_method "greenroom_own_method" (object, object, object)

cdef bint COMPILED
cdef object _DATA

cdef class Address:
    cdef readonly Cell _cell
    cdef readonly object _name
    cdef readonly Address _parent
    cdef object __weakref__

cpdef direct(Address ref, Cell cell, object name, Address parent)
