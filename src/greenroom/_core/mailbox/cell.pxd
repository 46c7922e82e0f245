import cython
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED, add_to, greenroom_call_handler, leave_to_collector, new_reference
from greenroom._core.capi cimport thread_ident
from greenroom._core.mailbox.mailbox cimport Mailbox
from greenroom._core.mailbox.ring cimport slots_of
from greenroom._core.runqueue cimport RunQueue

cdef int OFFLOADED, INTERCEPTED, HELD, ORDERS, PROPAGATES, RESUME, STALLED
cdef frozenset ATOMS
cdef object _DATA, deque, get_ident

@cython.final
cdef class HostOrder:
    cdef readonly int what
    cdef readonly str name

cdef class Tally:
    cdef public unsigned long long failed, unhandled, dead_lettered, dropped, redirected, lost, rejected, refused, late_replies
    cdef public long long sent_aside, stashed

@cython.final
cdef class Cell(Mailbox):
    cdef readonly object loop
    cdef readonly RunQueue runq
    cdef public object handler, subject, ref, record
    cdef public long long id
    cdef public bint idle
    # Small ones side by side: an idle actor is 16 bytes smaller (`make bench`, P8).
    cdef public char exempt, ending, ended
    cdef public unsigned long long handled
    cdef readonly Tally tally
    cdef public object orders
    cdef public object timers, task, context
    cdef object __weakref__
    cpdef set_up(self, object loop, RunQueue runq, object handler, object subject, Mailbox like)
    cpdef object shown(self)
    cpdef object peek_record(self)
    cpdef put_record(self, object record)
    cpdef tuple code(self)
    cpdef put_code(self, object handler, object subject)
    cpdef forget_code(self)
    cpdef forget_actor(self)
    cpdef str name(self)
    cpdef accept(self, object message, object sender, object lane)
    cdef bint _may_enter_quickly(self, object message)
    @cython.locals(foreign=bint)
    cpdef bint is_foreign(self)
    cpdef post(self, object message, object receipt, object lane=*)
    cpdef notify(self, object notice)
    cpdef object handoff(self)
    cpdef order(self, object action)
    cpdef object take_order(self)
    cpdef hold(self)
    cpdef release(self)
    cpdef stall(self)
    cpdef unstall(self)
    cpdef resume(self)
    cpdef make_runnable(self)
    cpdef Tally count_aside(self)
    cpdef sent(self)

# To the end of the data lane, which has room; the sender is the actor in hand unless named.
cdef inline void append(Cell cell, object message, object sender) noexcept:
    cdef PyObject **slots = slots_of(cell) + ((cell.head + cell.count * 2) & cell.mask)
    slots[0] = new_reference(message)
    slots[1] = new_reference(sender if sender is not None else cell.runq.current_ref)

cdef inline int add_reserved(Cell cell, int change) noexcept:
    return add_to(&cell.reserved, change)

# What is replaced is dropped after the lock is given up: its finalizer may do anything.
cdef inline object guarded_ref(Cell cell):
    with cython.critical_section(cell):
        return cell.ref

cdef inline int guard_ref(Cell cell, object ref) except -1:
    cdef object old
    with cython.critical_section(cell):
        old = cell.ref
        cell.ref = ref
    return 0

cdef inline object guarded_record(Cell cell):
    with cython.critical_section(cell):
        return cell.record

cdef inline int guard_record(Cell cell, object record) except -1:
    cdef object old
    with cython.critical_section(cell):
        old = cell.record
        cell.record = record
    return 0

cdef inline tuple guarded_code(Cell cell):
    with cython.critical_section(cell):
        return cell.handler, cell.subject

cdef inline int guard_code(Cell cell, object handler, object subject) except -1:
    cdef object old_handler, old_subject
    leave_to_collector(handler)
    with cython.critical_section(cell):
        old_handler = cell.handler
        old_subject = cell.subject
        cell.handler = handler
        cell.subject = subject
    return 0

# Borrowed pointers: the call itself keeps what it needs.
cdef inline object call_handler(Cell cell, PyObject *message):
    return greenroom_call_handler(<PyObject *>cell.handler, <PyObject *>cell.subject, message)
