from greenroom._core.capi cimport COMPILED, thread_ident
from greenroom._core.connections.connection cimport Connection

cdef int SENT
cdef dict directing
cdef object Lane, _DATA, get_ident

cdef class HandleBase:
    cdef readonly Connection _connection
    cdef public unsigned long _holder
    cdef public bint _is_plain
