import cython
from greenroom._core.cell cimport Cell

cdef class Body:
    cdef readonly Cell cell
    cdef public object spec, watchers, more
    cdef public Family family
    cdef public int state
    cdef Body _next, _previous

@cython.final
cdef class Family:
    cdef Body _first, _last
    cdef readonly Py_ssize_t count
    cdef readonly dict names
    cpdef require_free(self, str name, object parent)
    @cython.locals(last=Body)
    cpdef add(self, Body body, object name)
    cpdef remove(self, Body body, object name)
    @cython.locals(last=Body)
    cpdef Body youngest(self)
    @cython.locals(body=Body)
    cpdef list bodies(self)
