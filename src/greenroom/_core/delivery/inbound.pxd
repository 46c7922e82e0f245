import cython
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED, fence, thread_ident
from greenroom._core.current cimport sender_here
from greenroom._core.mailbox.cell cimport Cell, add_reserved
from greenroom._core.mailbox.mailbox cimport move_in
from greenroom._core.delivery.admission cimport Admission
from greenroom._core.simulation.director cimport Director
from greenroom._core.delivery.intake cimport Intake, entry_parts, has_entry
from greenroom._core.runqueue cimport InboundBase

cdef int ELSEWHERE, OFFLOADED, INTERCEPTED, ROOM, _MOST_FOR_THE_DEAD, _MOST_AT_ONCE
cdef dict worlds, current_handoffs
cdef object deque, world_here, partial, get_ident, Lane, NOTICE, _DATA, _REJECT, _DROP_OLD, _NOTICE, _ORDER, _CALL, _PARKED, _STOPPED, _REFUSED, _TURNED_AWAY

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

@cython.locals(previous=int, before=int)
cpdef int change_reserved(Cell cell, int change) noexcept

@cython.final
cdef class Parked:
    cdef object entries
    cdef int messages
    @cython.locals(position=Py_ssize_t)
    cdef tuple displace(self)

@cython.final
cdef class Inbound(InboundBase):
    cdef FastRLock _lock
    cdef Admission _admission
    cdef Intake _intake
    cdef list _kept
    cdef dict _reserved, _parked, _lines, _refused, _late
    cdef bint _is_over
    cdef readonly bint closed, sleeping, bell
    cdef public object rouse
    @cython.locals(director=Director)
    cdef _send(self, Cell cell, object message, object sender, object lane)
    cdef bint _has_room(self, Cell cell, object lane) except? True
    @cython.locals(reserved=int)
    cdef bint _put_quickly(self, Cell cell, object message, object sender) except? True
    @cython.locals(late=list, entry=tuple, cell=Cell)
    cdef _bury_late(self)
    @cython.locals(counts=list)
    cdef list _counts_for(self, Cell cell)
    cdef _count_late(self, Cell cell)
    cdef object _place(self, Cell cell, object message, object sender, object lane)
    @cython.locals(director=Director)
    cpdef bint send_if_room(self, Cell cell, object message, object sender, object lane) except? True
    cpdef bint post_to_line(self, Cell cell, object action) except? True
    @cython.locals(parked=Parked, director=Director)
    cpdef notify(self, Cell cell, object notice)
    cpdef order(self, Cell cell, object action)
    cpdef bint post(self, Cell cell, object action) except? True
    cpdef bint post_back(self, Cell cell, object action) except? True
    cpdef require_same_world(self, Cell cell)
    cdef _note_urgent(self, Cell cell)
    @cython.locals(parked=Parked)
    cdef tuple _park(self, Cell cell, object lane, object message, object sender)
    @cython.locals(parked=Parked)
    cdef tuple _unpark(self, Cell cell, object lane)
    cpdef bint reserve(self, Cell cell, object lane) except? True
    cdef bint _reserve(self, Cell cell, object lane) except? True
    cdef bint _is_done_with_some(self, Cell cell) except? True
    cpdef unreserve(self, Cell cell, object lane)
    cpdef int reserved(self, Cell cell, object lane)
    cpdef bint waiting(self)
    cpdef bint has_entries(self)
    cpdef ring_bell(self)
    cpdef clear_bell(self)
    cpdef bint fall_asleep(self)
    cpdef note_awake(self)
    cdef _rouse_if_asleep(self)
    @cython.locals(late=list, left=int, cell=Cell, delivered=Py_ssize_t)
    cpdef take_in(self)
    @cython.locals(intake=Intake, cell=Cell)
    cdef int _move(self, list late, int left) except -1
    cdef _deliver(self, Cell cell, object lane, object message, object sender)
    @cython.locals(parked=Parked, total=Py_ssize_t)
    cpdef Py_ssize_t count(self, Cell cell=*)
    @cython.locals(late=dict, cell=Cell)
    cpdef settle(self)

# The oldest entry's message moves into its mailbox, with the references that the entry has; False when it is not a data
# message for a mailbox as most are. Borrowed pointers: the entry keeps the cell, and the cell what was moved into it.
cdef inline bint move_simply(Intake intake) except -1:
    cdef PyObject **entry = entry_parts(intake)
    if entry[1] != <PyObject *>_DATA or entry[2] == <PyObject *>_PARKED:
        return False
    return move_to_mailbox(<Cell>entry[0], entry)

cdef inline bint move_to_mailbox(Cell cell, PyObject **entry) except -1:
    if cell.closed or cell.priority is not None:
        return False
    move_in(cell, entry + 2)
    change_reserved(cell, -1)
    cell.make_runnable()
    return True
