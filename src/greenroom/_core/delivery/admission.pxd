import cython
cimport greenroom._core.generators
from greenroom._core.delivery.outcomes cimport Outcomes
from greenroom._core.delivery.waitingline cimport Waiter, WaitingLine
from greenroom._core.mailbox.cell cimport Cell, Tally
from greenroom._core.simulation.director cimport Director
from greenroom._core.receipt cimport Receipt, Told

cdef int OFFLOADED, EMPTY, DATA, INTERCEPTED, LOOKED_AT, PROPAGATES, ROOM
cdef object Lane, NOTICE, _DATA, _REJECT, _DROP_OLD
cdef frozenset ATOMS
cdef tuple _LANES

@cython.final
cdef class Admission(Outcomes):
    cdef public object inbound
    cdef readonly object propagation
    cdef readonly Director director
    cdef WaitingLine _line
    cdef bint _is_looked_at(self, Cell cell) except? True
    cpdef object take_along(self, Cell cell, object sender)
    @cython.locals(intercepted=bint)
    cdef bint _is_intercepted(self, Cell cell, object message, object sender, object lane) except? True
    cpdef decide(self, Cell cell, object message, object sender, object lane)
    cdef _admit_by_key(self, Cell cell, object message, object sender)
    @cython.locals(tally=Tally)
    cpdef deliver(self, Cell cell, object message, object sender, object lane)
    cpdef deliver_sent(self, Cell cell, object message, object sender, object lane)
    cpdef let_in_reserved(self, Cell cell, object message, object sender, object lane)
    @cython.locals(reserved=int)
    cdef bint _is_full(self, Cell cell, object lane) except? True
    @cython.locals(tally=Tally)
    cdef _let_in(self, Cell cell, object message, object sender, object lane)
    cdef _overtake(self, Cell cell)
    @cython.locals(tally=Tally)
    cdef _displace(self, Cell cell, object lane)
    @cython.locals(tally=Tally)
    cdef _refuse(self, Cell cell, object message, object sender, object lane)
    @cython.locals(tally=Tally)
    cpdef turn_away(self, Cell cell, object message, object sender, object why=*)
    cdef _turn_away_keyless(self, Cell cell, object message, object sender, object exc)
    @cython.locals(found=tuple)
    cpdef clear(self, Cell cell, object why)
    @cython.locals(lane=int)
    cpdef tuple take_next(self, Cell cell)
    @cython.locals(tally=Tally)
    cpdef redirect(self, Cell cell, Cell target, object message, object sender)
    @cython.locals(tally=Tally)
    cpdef take_back(self, Cell cell, object message, object sender, int lane)
    cpdef wait_for_room(self, Cell cell, Waiter waiter)
    cpdef bint has_room(self, Cell cell, object lane) except? True
    cpdef bint admit_if_room(self, Cell cell, object message, object sender, object lane) except? False
    cdef _admit_reserved(self, Cell cell, object message, object sender, object lane)
    cpdef give_up(self, Cell cell, Waiter waiter)
    cpdef fill_up(self, Cell cell)
    cdef _let_waiter_in(self, Cell cell, Waiter waiter)
    @cython.locals(waiter=Waiter)
    cdef _dismiss(self, Cell cell, object why)
