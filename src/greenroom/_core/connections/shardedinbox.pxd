import cython
cimport greenroom._core.generators
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED, fence, new_reference
from greenroom._core.connections.connection cimport Doorbell, Connection
from greenroom._core.connections.spscring cimport SpscRing, take_reference
from greenroom._core.delivery.admission cimport Admission
from greenroom._core.delivery.inbound cimport Inbound
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.mailbox.mailbox cimport move_in

cdef int DATA, _PHASES
cdef object Lane, RLock
cdef tuple _CYCLE, _ALL

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
    cpdef open(self)
    cpdef close(self)
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
    cpdef Py_ssize_t bury(self, object why, tuple lanes=*) except -1
    @cython.locals(connection=Connection, ring=SpscRing, target=Cell, buried=Py_ssize_t)
    cdef Py_ssize_t _bury_all(self, object why, tuple lanes) except -1
    cdef Py_ssize_t _bury(self, Connection connection, Cell target, object message, object why) except -1
    @cython.locals(connection=Connection)
    cdef _forget_abandoned(self)

# The ring's reference to its oldest message goes to the mailbox, which has room for it.
cdef inline int move_reference(SpscRing ring, Cell cell, object sender) except -1:
    cdef PyObject *entry[2]
    entry[0] = take_reference(ring)
    entry[1] = new_reference(sender)
    return move_in(cell, entry)
