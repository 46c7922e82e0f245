import cython
cimport greenroom._core.generators
from greenroom._core.mailbox.cell cimport Cell, Tally
from greenroom._core.observerhooks cimport ObserverHooks
from greenroom._core.receipt cimport Receipt, Told
from greenroom._core.runqueue cimport AdmissionBase
from greenroom._core.simulation.director cimport Director

cdef int OFFLOADED, EMPTY, DATA, INTERCEPTED, LOOKED_AT, PROPAGATES, ROOM
cdef object Lane, NOTICE, deque, partial, _DATA, _REJECT, _DROP_OLD
cdef frozenset ATOMS
cdef tuple _LANES

@cython.final
cdef class Waiter:
    cdef readonly object message, sender, lane, finish, claim

@cython.final
cdef class Admission(AdmissionBase):
    cdef public object host
    cdef public object inbound
    cdef readonly ObserverHooks hooks
    cdef readonly Tally totals
    cdef readonly object propagation
    cdef readonly Director director
    cdef dict _lines
    cdef bint _is_looked_at(self, Cell cell) except? True
    cpdef object take_along(self, Cell cell, object sender)
    @cython.locals(intercepted=bint)
    cdef bint _is_intercepted(self, Cell cell, object message, object sender, object lane) except? True
    cpdef decide(self, Cell cell, object message, object sender, object lane)
    cdef _admit_by_key(self, Cell cell, object message, object sender)
    @cython.locals(tally=Tally)
    cpdef deliver(self, Cell cell, object message, object sender, object lane)
    cpdef deliver_sent(self, Cell cell, object message, object sender, object lane)
    cpdef deliver_reserved(self, Cell cell, object message, object sender, object lane)
    cdef _let_in_or_bury(self, Cell cell, object message, object sender, object lane)
    @cython.locals(reserved=int)
    cdef bint _is_full(self, Cell cell, object lane) except? True
    @cython.locals(tally=Tally)
    cdef _let_in(self, Cell cell, object message, object sender, object lane)
    @cython.locals(tally=Tally)
    cdef _displace(self, Cell cell, object lane)
    @cython.locals(is_rejected=bint)
    cdef _refuse(self, Cell cell, object message, object sender, object lane)
    cpdef tell_refused(self, Cell cell, object message, object sender, object lane)
    @cython.locals(tally=Tally)
    cpdef turn_away(self, Cell cell, object message, object sender, object why=*)
    cdef _bury_refused(self, Cell cell, object message, object sender, object exc)
    @cython.locals(tally=Tally)
    cpdef redirect(self, Cell cell, Cell target, object message, object sender)
    cpdef bint send_if_room(self, Cell cell, object message, object sender, object lane) except? False
    cpdef bint has_room(self, Cell cell, object lane) except? True
    cpdef wait_for_room(self, Cell cell, Waiter waiter)
    cpdef give_up(self, Cell cell, Waiter waiter)
    cdef _close_if_empty(self, Cell cell, object lane, object line)
    @cython.locals(waiter=Waiter)
    cpdef fill_up(self, Cell cell)
    cdef _let_waiter_in(self, Cell cell, Waiter waiter)
    cdef _admit_reserved(self, Cell cell, object message, object sender, object lane)
    @cython.locals(waiter=Waiter)
    cdef _dismiss(self, Cell cell, object why)
    @cython.locals(lane=int)
    cpdef tuple take_next(self, Cell cell)
    @cython.locals(found=tuple)
    cpdef clear(self, Cell cell, object why)
    @cython.locals(tally=Tally)
    cpdef take_back(self, Cell cell, object message, object sender, int lane)
    @cython.locals(tally=Tally)
    cpdef bury(self, Cell cell, object message, object sender, object why)
    @cython.locals(tally=Tally)
    cpdef drop(self, Cell cell, object message, object sender)
    @cython.locals(tally=Tally)
    cpdef count_stashed(self, Cell cell, long long change)
    @cython.locals(tally=Tally)
    cpdef count_failed(self, Cell cell)
    @cython.locals(tally=Tally)
    cpdef count_refusal(self, Cell cell)
    @cython.locals(tally=Tally)
    cpdef count_lost(self, Cell cell, unsigned long long messages)
    @cython.locals(tally=Tally)
    cpdef count_unhandled(self, Cell cell)
    @cython.locals(tally=Tally)
    cpdef count_withdrawn(self, Cell cell, Receipt receipt)
    @cython.locals(tally=Tally)
    cpdef count_refused(self, Cell cell, unsigned long long rejected, unsigned long long dropped, unsigned long long turned_away)
    cpdef tell_full(self, Cell cell, object message, object sender, object lane)
    cpdef tell_dropped(self, Cell cell, object message, object sender, object lane)
    cpdef tell_dead_letter(self, Cell cell, object message, object sender, object why)
