import cython
from cpython.ref cimport PyObject
from greenroom._core.mailbox.ring cimport Ring, move_at
from greenroom._core.receipt cimport Receipt, is_from_itself

cdef int LANES, PRIORITY, RECEIPTS, STALLED
cdef int EMPTY, LOG, DATA, MANAGEMENT, CONTROL, PATIENCE
cdef object NOTICE, _DROP_OLD

@cython.final
cdef class SideLane:
    cdef Ring messages, places

@cython.final
cdef class SideLanes:
    cdef SideLane control, management, log
    cdef readonly object arrived
    cdef public int passed
    cdef SideLane lane(self, int code)
    @cython.locals(lane=SideLane)
    cpdef int depth(self, int code)
    cpdef int total(self)
    @cython.locals(lane=SideLane)
    cpdef list senders(self)
    @cython.locals(lane=SideLane)
    cpdef int slots(self, int code)
    @cython.locals(lane=SideLane)
    cpdef push(self, int code, object message, object sender, object data_before)
    @cython.locals(lane=SideLane)
    cpdef put_back(self, int code, object message, object sender)
    cpdef object first_sender(self, int code)
    cpdef object first_place(self, int code)
    @cython.locals(lane=SideLane)
    cpdef object pop(self, int code)

cdef class Mailbox(Ring):
    cdef public int limit, reserved
    cdef readonly int capacity
    cdef public int flags
    cdef readonly int receipts, notices
    cdef readonly bint closed, drops_oldest
    cdef readonly unsigned long long pushed, noticed
    cdef readonly object config
    cdef readonly SideLanes side
    cdef readonly object priority
    cpdef set_up_mailbox(self, object config, int capacity, bint drops_oldest, object priority)
    cpdef int depth(self, int lane)
    cpdef int queued(self)
    @cython.locals(position=int, found=int)
    cpdef int from_others(self, object own, int most)
    cpdef bint waiting(self)
    cpdef bint has_next(self)
    cdef bint _data_waits(self)
    cpdef enqueue(self, int lane, object message, object sender)
    cpdef put_back(self, int lane, object message, object sender)
    cpdef enqueue_notice(self, object notice)
    @cython.locals(side=SideLanes, data=bint, management=bint, log=bint, contested=bint, top=int)
    cpdef int choose(self)
    @cython.locals(side=SideLanes)
    cdef int _urgent(self)
    @cython.locals(side=SideLanes, chosen=int, lane=int)
    cdef int _oldest_below(self, int top)
    cpdef object sender_of(self, int lane)
    cpdef object take_from(self, int lane)
    cpdef drop_first(self, int count)
    @cython.locals(position=Py_ssize_t)
    cpdef take_in(self, list messages, list senders)
    @cython.locals(position=int)
    cpdef tuple evict(self, int lane)
    cdef _release(self, object sender)
    cpdef close(self)

# `enqueue` for a data message of a mailbox without priorities, with the references that `entry` has to it and its sender.
cdef inline int move_in(Mailbox mailbox, PyObject **entry) except -1:
    while mailbox.count * 2 > mailbox.mask:
        mailbox.grow()
    if isinstance(<object>entry[1], Receipt):
        mailbox.receipts += 1
        mailbox.flags |= RECEIPTS
    move_at(mailbox, (mailbox.head + mailbox.count * 2) & mailbox.mask, entry)
    mailbox.count += 1
    mailbox.pushed += 1
    return 0
