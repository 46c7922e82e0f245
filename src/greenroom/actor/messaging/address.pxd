import cython
from greenroom._core.capi cimport COMPILED
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.messaging.asking cimport put_patiently, put_question

cdef extern from *:
    """
    /* A call with a message and nothing else, as nearly all are, goes this way, past the arguments that it does not have:
       50 instructions less (callgrind, counting). */
    static PyObject *(*greenroom_tell_message)(PyObject *ref, PyObject *message);
    typedef PyObject *(*greenroom_method)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    static greenroom_method greenroom_tell_any;

    static PyObject *greenroom_tell(PyObject *ref, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
        if (count == 1 && names == NULL)
            return greenroom_tell_message(ref, arguments[0]);
        return greenroom_tell_any(ref, arguments, count, names);
    }

    static inline void greenroom_shorten(PyMethodDef *tell, void *tell_message) {
        if (tell->ml_flags == (METH_FASTCALL | METH_KEYWORDS)) {
            greenroom_tell_any = (greenroom_method)(void (*)(void))tell->ml_meth;
            greenroom_tell_message = (PyObject *(*)(PyObject *, PyObject *))tell_message;
            tell->ml_meth = (PyCFunction)(void (*)(void))greenroom_tell;
        }
    }

    /* The definition and its text are never freed: like those of any compiled method, they last as long as the process. */
    static inline PyObject *greenroom_own_method(
            PyObject *type, PyObject *method, PyObject *doc, int is_tell, void *tell_message) {
        const char *text = PyBytes_AsString(doc);
        PyMethodDef *definition = text ? (PyMethodDef *)PyMem_Malloc(sizeof(PyMethodDef)) : NULL;
        if (definition == NULL) return text ? PyErr_NoMemory() : NULL;
        *definition = *((PyMethodDescrObject *)method)->d_method;
        definition->ml_doc = text;
        if (is_tell)
            greenroom_shorten(definition, tell_message);
        Py_INCREF(doc);
        return PyDescr_NewMethod((PyTypeObject *)type, definition);
    }
    """

cdef object _DATA

cdef class Address:
    cdef readonly Cell _cell
    cdef readonly object _name
    cdef readonly Address _parent
    cdef object __weakref__

cdef object tell_message(Address ref, object message)

cdef extern from *:
    object own_method "greenroom_own_method" (object, object, object, bint, object (*)(Address, object))

cpdef direct(Address ref, Cell cell, object name, Address parent)
