import cython
from greenroom._core.cell cimport Cell, Tally
from greenroom._core.hooks cimport Hooks
from greenroom._core.slip cimport Slip

cdef int EMPTY
cdef object Lane, NOTICE, _DATA, _REJECT, _DROP_OLD

@cython.final
cdef class Door:
    cdef public object host, inbound
    cdef readonly Hooks hooks
    cdef readonly Tally totals
    cpdef admit(self, Cell cell, object message, object sender, object lane)
    cdef _admit_by_key(self, Cell cell, object message, object sender)
    @cython.locals(tally=Tally)
    cpdef deliver(self, Cell cell, object message, object sender, object lane)
    cpdef let_in_promised(self, Cell cell, object message, object sender, object lane)
    @cython.locals(promised=int)
    cdef bint _is_full(self, Cell cell, object lane) except? True
    @cython.locals(tally=Tally)
    cdef _let_in(self, Cell cell, object message, object sender, object lane)
    @cython.locals(tally=Tally)
    cdef _displace(self, Cell cell, object lane)
    @cython.locals(tally=Tally)
    cdef _refuse(self, Cell cell, object message, object sender, object lane)
    @cython.locals(tally=Tally)
    cdef _turn_away(self, Cell cell, object message, object sender, object why=*)
    cdef _turn_away_keyless(self, Cell cell, object message, object sender, object exc)
    @cython.locals(lane=int, tally=Tally)
    cpdef clear(self, Cell cell, object why)
    @cython.locals(tally=Tally)
    cpdef count_withdrawn(self, Cell cell, Slip slip)
    @cython.locals(tally=Tally)
    cpdef count_refused(self, Cell cell, unsigned long long rejected, unsigned long long dropped)
    cpdef count_turned_away(self)
    cpdef Tally tally_of(self, Cell cell)
    cpdef tell_full(self, Cell cell, object message, object sender, object lane)
    cpdef tell_dropped(self, Cell cell, object message, object sender, object lane)
    cpdef tell_dead_letter(self, Cell cell, object message, object sender, object why)
