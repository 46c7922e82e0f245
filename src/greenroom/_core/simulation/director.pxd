import cython
from cpython.ref cimport PyObject
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.capi cimport COMPILED, greenroom_put
from greenroom._core.runqueue cimport RunQueue
from greenroom._core.simulation.schedules cimport Schedule
from greenroom._core.receipt cimport Receipt
from greenroom._core.world cimport VirtualClock, World

cdef int FAILED, TOLD, TICKED, TAKEN, ANSWERED, REFUSED, DECLINED, STARTED, STOPPED, RESTARTED, ESCALATED, FULL, DROPPED
cdef int DEAD_LETTER, ENTRIES, _DEEPEST, _A_FEW, _MANY, _CORES
cdef unsigned long long PRIME, ALL_BITS
cdef object crc32
cdef tuple _BLANK

cdef inline void put_entry(list log, Py_ssize_t place, object value) noexcept:
    greenroom_put(<PyObject *>log, place, value)

@cython.final
cdef class Director(World):
    cdef readonly Schedule schedule
    cdef readonly VirtualClock clock
    cdef readonly object seed
    cdef readonly long long step, last_step, max_steps, last_actor
    cdef public object outside, faults
    cdef public bint has_threads
    cdef public dict choices
    cdef readonly dict visited
    cdef object _chosen
    cdef public object refused, interrupt
    cdef public tuple fatal
    cdef public list unretrieved
    cdef readonly list injected
    cdef readonly Py_ssize_t keep
    cdef readonly list loops
    cdef list _log
    cdef Py_ssize_t _place, _end
    cdef object _number, _moment
    cdef readonly unsigned long long fingerprint
    cdef dict _names
    @cython.locals(position=Py_ssize_t)
    cpdef Py_ssize_t next(self, RunQueue runq) except -1
    @cython.locals(position=Py_ssize_t, mark=cython.ulonglong, number=cython.ulonglong)
    cpdef Py_ssize_t next_thread(self, list threads, list names) except -1
    @cython.locals(leaves=cython.bint)
    cpdef bint leaves_brought(self) except? True
    @cython.locals(wanted=Py_ssize_t)
    cpdef Py_ssize_t budget(self, Py_ssize_t usual) except -1
    cpdef bint ends_tick(self) except? True
    cdef _write_choice(self, int position, int budget, int pause)
    cpdef meets(self, Cell cell)
    @cython.locals(kind=int, receipt=Receipt)
    cpdef bint sends(self, Cell cell, object message, object sender, object lane) except? True
    cpdef approaches(self, Cell cell)
    @cython.locals(receipt=Receipt)
    cpdef object handle(self, Cell cell, object message, object sender)
    cpdef bint is_fault(self, object cause) except? False
    cdef _keep(self, object cause, object who)
    @cython.locals(
        number=cython.ulonglong, sender=cython.ulonglong, mark=cython.ulonglong, log=list, place=Py_ssize_t
    )
    cpdef note(self, int kind, Cell cell, object what, object whom)
    @cython.locals(mark=cython.ulonglong)
    cpdef time_moved(self)
    @cython.locals(mark=cython.ulonglong, number=Py_hash_t)
    cdef unsigned long long _mark_of(self, object what, int depth) except? 0
    cdef unsigned long long _mark_of_text(self, str text) except? 0
