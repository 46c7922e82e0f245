import cython
cimport greenroom._core.generators
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED, fence, new_reference, thread_ident
from greenroom._core.connections.spscring cimport SpscRing, push_message, take_reference
from greenroom._core.delivery.admission cimport Admission
from greenroom._core.delivery.inbound cimport Inbound
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.mailbox.mailbox cimport move_in

cdef int SENT, DATA, _PHASES
cdef dict worlds
cdef object Lane, as_lane, suppress, deque, get_ident, RLock, _DATA
cdef tuple _CYCLE, _ALL

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
    cpdef object sender(self)
    @cython.locals(ring=SpscRing)
    cpdef close(self)
    cpdef has_room(self)
    cdef _tell_room(self)

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

@cython.final
cdef class MessageInContext:
    cdef readonly object message, sender

@cython.final
cdef class ShardedInbox:
    cdef Admission _admission
    cdef list _bursts
    cdef object _burying, _arrived
    cdef readonly Doorbell bell
    cdef readonly list connections
    cdef list _turns
    cdef Py_ssize_t _first, _phase
    cdef readonly bint is_open
    cdef public bint is_stalled
    cdef public int shut
    cpdef Connection connect(self, object sizes, object sender=*)
    cpdef bint waits(self)
    @cython.locals(connection=Connection, held=Py_ssize_t)
    cpdef Py_ssize_t held(self)
    @cython.locals(moved=Py_ssize_t)
    cpdef Py_ssize_t step(self) except -1
    @cython.locals(skipped=Py_ssize_t, phase=Py_ssize_t, moved=Py_ssize_t)
    cdef Py_ssize_t _next_burst(self) except -1
    @cython.locals(
        connections=list, connection=Connection, count=Py_ssize_t, first=Py_ssize_t, left=Py_ssize_t, share=Py_ssize_t,
        before=Py_ssize_t, position=Py_ssize_t
    )
    cdef Py_ssize_t _move(self, object lane, Py_ssize_t burst) except -1
    @cython.locals(ring=SpscRing, count=Py_ssize_t, cell=Cell)
    cdef Py_ssize_t _move_from(self, Connection connection, object lane, Py_ssize_t most) except -1
    @cython.locals(number=int, depth=Py_ssize_t, burst=Py_ssize_t, bound=Py_ssize_t)
    cdef Py_ssize_t _room(self, Connection connection, Cell cell, object lane) except -1
    cdef bint _is_plain(self) except? True
    cdef _move_plainly(self, Connection connection, Cell cell, SpscRing ring, Py_ssize_t count)
    cdef _let_in(self, Connection connection, Cell cell, object message, object lane)
    @cython.locals(connection=Connection, ring=SpscRing, target=Cell, buried=Py_ssize_t)
    cpdef Py_ssize_t bury(self, object why, tuple lanes=*) except -1
    cdef _bury(self, Connection connection, Cell target, object message, object why)
    @cython.locals(connection=Connection)
    cdef _forget_abandoned(self)

# The ring's reference to its oldest message goes to the mailbox, which has room for it.
cdef inline int move_reference(SpscRing ring, Cell cell, object sender) except -1:
    cdef PyObject *entry[2]
    entry[0] = take_reference(ring)
    entry[1] = new_reference(sender)
    return move_in(cell, entry)
