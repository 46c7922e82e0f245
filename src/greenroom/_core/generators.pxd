# What every compiled module with a generator or a coroutine in it cimports, for the sake of this alone.
#
# CPython, since 3.11, leaves None where a generator keeps the exception that it handles, if Python code which it called
# has handled one of its own; the code that Cython 3 generates takes that None for an exception, and reads a traceback
# where there is none: a crash, when a finalizer or a loop's `create_future` had an `except`. So None is put away there.
cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030B00a4 && !defined(PyException_GetTraceback)
    static inline PyObject *greenroom_traceback_of(PyObject **slot) {
        if (*slot == Py_None) {
            *slot = NULL;
            Py_DECREF(Py_None);
            return NULL;
        }
        return PyException_GetTraceback(*slot);
    }
    #define PyException_GetTraceback(value) greenroom_traceback_of(&(value))
    #endif
    """
