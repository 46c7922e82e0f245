import cython
from greenroom._core.mailbox.cell cimport Cell, Tally
from greenroom._core.observerhooks cimport ObserverHooks
from greenroom._core.receipt cimport Receipt
from greenroom._core.runqueue cimport AdmissionBase

cdef object _DATA

cdef class Outcomes(AdmissionBase):
    cdef public object host
    cdef readonly ObserverHooks hooks
    cdef readonly Tally totals
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
