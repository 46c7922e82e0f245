import cython
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED
from greenroom._core.runqueue cimport RunQueue

# Only the functions of `current` touch it: each module that cimports this has one of its own, which stays empty.
cdef extern from *:
    """
    #if defined(_MSC_VER)
      static __declspec(thread) PyObject *greenroom_ticking = NULL;
    #elif defined(__GNUC__)
      static __thread PyObject *greenroom_ticking __attribute__((unused)) = NULL;
    #else
      static _Thread_local PyObject *greenroom_ticking = NULL;
    #endif
    """
    PyObject *greenroom_ticking

cdef object get_ident
cdef dict _ticking

cpdef object ticking_here()
@cython.locals(outer=object)
cpdef object begin_tick(object runq)
cpdef end_tick(object outer)
cpdef object sender_here()

cdef inline object ticking_object():
    return None if greenroom_ticking == NULL else <object>greenroom_ticking

cdef inline bint is_ticking() noexcept:
    return greenroom_ticking != NULL

cdef inline object current_ref_here():
    return (<RunQueue>greenroom_ticking).current_ref

# Borrowed: a run queue is kept by its loop, which is in a tick.
cdef inline void set_ticking(object runq):
    global greenroom_ticking
    greenroom_ticking = NULL if runq is None else <PyObject *>runq
