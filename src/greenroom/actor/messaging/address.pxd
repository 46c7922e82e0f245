import cython
from greenroom._core.capi cimport COMPILED
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.messaging.question cimport put_question

cdef extern from *:
    """
    /* The methods of `Address`, and what a call of one with a message and nothing else does instead, as nearly all calls
       are: past the arguments that it does not have (50 instructions less; callgrind, counting). */
    typedef PyObject *(*greenroom_with_message)(PyObject *ref, PyObject *message);
    static PyObject *greenroom_methods[3];
    static greenroom_with_message greenroom_quick_tell, greenroom_quick_ask;

    static PyObject *greenroom_call_method(
            PyObject *method, PyObject *ref, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
        const Py_ssize_t total = count + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
        PyObject *few[8], **all = total < 8 ? few : PyMem_New(PyObject *, total + 1), *result;
        if (all == NULL)
            return PyErr_NoMemory();
        all[0] = ref;
        memcpy(all + 1, arguments, (size_t)total * sizeof(PyObject *));
        result = PyObject_Vectorcall(method, all, (size_t)count + 1, names);
        if (all != few)
            PyMem_Free(all);
        return result;
    }

    static PyObject *greenroom_tell(PyObject *ref, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
        if (count == 1 && names == NULL)
            return greenroom_quick_tell(ref, arguments[0]);
        return greenroom_call_method(greenroom_methods[0], ref, arguments, count, names);
    }

    static PyObject *greenroom_ask(PyObject *ref, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
        if (count == 1 && names == NULL)
            return greenroom_quick_ask(ref, arguments[0]);
        return greenroom_call_method(greenroom_methods[1], ref, arguments, count, names);
    }

    static PyObject *greenroom_ask_sync(PyObject *ref, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
        return greenroom_call_method(greenroom_methods[2], ref, arguments, count, names);
    }

    static const struct {
        const char *name;
        PyObject *(*call)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    } greenroom_own[3] = {{"tell", greenroom_tell}, {"ask", greenroom_ask}, {"ask_sync", greenroom_ask_sync}};

    /* A definition and its text are never freed: like those of any compiled method, they last as long as the process. */
    static PyObject *greenroom_own_method(
            PyObject *type, PyObject *method, int number, PyObject *doc, void *tell_message, void *ask_message) {
        const char *text = PyBytes_AsString(doc);
        PyMethodDef *definition = text ? (PyMethodDef *)PyMem_Calloc(1, sizeof(PyMethodDef)) : NULL;
        if (definition == NULL)
            return text ? PyErr_NoMemory() : NULL;
        definition->ml_name = greenroom_own[number].name;
        definition->ml_meth = (PyCFunction)(void (*)(void))greenroom_own[number].call;
        definition->ml_flags = METH_FASTCALL | METH_KEYWORDS;
        definition->ml_doc = text;
        greenroom_quick_tell = (greenroom_with_message)tell_message;
        greenroom_quick_ask = (greenroom_with_message)ask_message;
        Py_XSETREF(greenroom_methods[number], Py_NewRef(method));
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
cdef object ask_message(Address ref, object message)

cdef extern from *:
    object own_method "greenroom_own_method" (
        object, object, int, object, object (*)(Address, object), object (*)(Address, object)
    )

cpdef direct(Address ref, Cell cell, object name, Address parent)
