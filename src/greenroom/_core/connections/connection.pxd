import cython
from greenroom._core.capi cimport COMPILED, fence, thread_ident
from greenroom._core.connections.spscring cimport SpscRing, push_message
from greenroom._core.delivery.inbound cimport Inbound
from greenroom._core.mailbox.cell cimport Cell

cdef int SENT
cdef dict worlds
cdef object Lane, as_lane, suppress, deque, get_ident, _DATA

@cython.final
cdef class Doorbell:
    cdef readonly Inbound inbound
    cdef public bint rung
    cpdef ring(self, bint urgent)

@cython.final
cdef class Connection:
    cdef readonly Doorbell bell
    cdef readonly SpscRing control, management, data, log
    cdef public Cell cell
    cdef public object outbox
    cdef readonly object _on_room
    cdef object _sender
    cdef public unsigned long long handled
    cdef public bint wants_room
    cdef readonly bint is_abandoned
    @cython.locals(number=int)
    cpdef SpscRing ring_of(self, object lane)
    @cython.locals(ring=SpscRing, fate=int)
    cpdef int offer(self, object message, object lane) except -1
    cpdef Py_ssize_t held(self)
    cpdef Py_ssize_t queued(self)
    cpdef sent_by(self, object sender)
    cpdef object sender(self)
    @cython.locals(ring=SpscRing)
    cpdef close(self)
    cpdef open(self, tuple shut=*)
    cpdef ask_for_room(self, object on_room)
    cpdef forget_room(self, object on_room)
    cpdef has_room(self)
    cdef _tell_room(self)
    cpdef abandon(self)

cdef class HandleBase:
    cdef readonly Connection _connection
    cdef public unsigned long _holder
    cdef public bint _is_plain

# Replaced by one thread, and read by another.
cdef inline object guarded_sender(Connection connection):
    with cython.critical_section(connection):
        return connection._sender

cdef inline int guard_sender(Connection connection, object sender) except -1:
    cdef object old
    with cython.critical_section(connection):
        old = connection._sender
        connection._sender = sender
    return 0
