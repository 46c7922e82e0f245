import cython
from greenroom._core.capi cimport COMPILED, thread_ident

cdef extern from "pythread.h":
    ctypedef void *PyThread_type_lock
    PyThread_type_lock PyThread_allocate_lock()
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait) nogil
    void free_to_enter "PyThread_release_lock" (PyThread_type_lock lock)
    void PyThread_free_lock(PyThread_type_lock lock)

cdef inline PyThread_type_lock new_lock() except NULL:
    cdef PyThread_type_lock lock = PyThread_allocate_lock()
    if lock == NULL:
        raise MemoryError("no lock can be made")
    return lock

cdef inline void free_lock(PyThread_type_lock lock):
    if lock != NULL:
        PyThread_free_lock(lock)

cdef inline void wait_for_lock(PyThread_type_lock lock):
    if not PyThread_acquire_lock(lock, 0):
        with nogil:
            PyThread_acquire_lock(lock, 1)


@cython.final
cdef class FastRLock:
    cdef object _plain
    cdef PyThread_type_lock _lock
    cdef unsigned long _holder
    cdef Py_ssize_t _depth
    cpdef enter(self)
    cpdef leave(self)
