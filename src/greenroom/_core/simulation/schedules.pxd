import cython
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.runqueue cimport RunQueue

cdef int WINDOW, LONGEST, SHORTEST
cdef unsigned long long _STEP, _FIRST, _SECOND, ALL_BITS
cdef double _FRACTION
cdef tuple _NOTHING

@cython.final
cdef class SplitMix:
    cdef unsigned long long _state
    @cython.locals(bits=cython.ulonglong)
    cpdef unsigned long long draw(self)
    cpdef long long below(self, long long bound)
    cpdef double fraction(self)
    cpdef SplitMix fork(self)

cdef class Schedule:
    cpdef Py_ssize_t choose(self, long long step, RunQueue runq) except -1
    cpdef Py_ssize_t choose_thread(self, long long step, list threads) except -1
    cpdef bint leaves_brought(self, long long step) except? True
    cpdef int budget(self, long long step) except -1
    cpdef bint pauses(self, long long step) except? True

cdef class Shuffled(Schedule):
    cdef SplitMix _prng
    cpdef Py_ssize_t choose(self, long long step, RunQueue runq) except -1
    cpdef Py_ssize_t choose_thread(self, long long step, list threads) except -1
    cpdef bint leaves_brought(self, long long step) except? True
    @cython.locals(bits=cython.ulonglong)
    cpdef int budget(self, long long step) except -1
    cpdef bint pauses(self, long long step) except? True

@cython.final
cdef class Line:
    cdef long long _head
    cdef Py_ssize_t _passed
    cdef bint has_waited(self, long long head)

cdef class Pct(Schedule):
    cdef SplitMix _prng
    cdef set _changes
    cdef dict _priorities
    cdef double _outside, _lowest
    cdef object _last
    cdef Line _actors, _threads
    @cython.locals(position=Py_ssize_t, numbers=list)
    cpdef Py_ssize_t choose(self, long long step, RunQueue runq) except -1
    cpdef Py_ssize_t choose_thread(self, long long step, list threads) except -1
    cpdef bint leaves_brought(self, long long step) except? True
    @cython.locals(position=Py_ssize_t)
    cdef Py_ssize_t _choose(self, long long step, list numbers, Line line) except -1
    @cython.locals(best=Py_ssize_t, position=Py_ssize_t, highest=double, priority=double)
    cdef Py_ssize_t _highest(self, list numbers) except -1
    cdef double _priority_of(self, object number) except? -1.0
    cpdef int budget(self, long long step) except -1
    cpdef bint pauses(self, long long step) except? True

cdef long long _number_of(Cell cell) except -1

cdef class Scripted(Schedule):
    cdef dict _script
    cpdef Py_ssize_t choose(self, long long step, RunQueue runq) except -1
    cpdef Py_ssize_t choose_thread(self, long long step, list threads) except -1
    cpdef bint leaves_brought(self, long long step) except? True
    cpdef int budget(self, long long step) except -1
    cpdef bint pauses(self, long long step) except? True
