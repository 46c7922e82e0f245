import cython
cimport greenroom._core.generators
from greenroom._core.capi cimport COMPILED, new_object, thread_ident
from greenroom._core.connections.connection cimport ShardedInbox
from greenroom._core.current cimport begin_tick, end_tick
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.mailbox.mailbox cimport Mailbox
from greenroom._core.simulation.director cimport Director
from greenroom._core.world cimport World
from greenroom._core.delivery.admission cimport Admission
from greenroom._core.observerhooks cimport ObserverHooks
from greenroom._core.delivery.inbound cimport Inbound
from greenroom._core.timing.tickbudget cimport TickBudget
from greenroom._core.runqueue cimport RunQueue
from greenroom._core.scheduler.celltable cimport CellTable
from greenroom._core.timing.timers cimport Alarm, Timer, Timers
from greenroom._core.scheduler.host cimport HostBase
from greenroom._core.scheduler.visits cimport Visits

cdef int OFFLOADED, ORDERS, ORDERED, ENDED_IN_HAND, ENDED, PROPAGATES
cdef double LONGEST_DELAY, SHORTEST_INTERVAL
cdef object get_ident, Lane, Mapping, _DEFAULT_MAILBOX

@cython.final
cdef class Loop:
    cdef readonly object limits, clock
    cdef readonly HostBase host
    cdef Mailbox _mailbox
    cdef readonly World world
    cdef Director _director
    cdef readonly ObserverHooks hooks
    cdef readonly TickBudget tick_budget
    cdef readonly RunQueue runq
    cdef readonly CellTable table
    cdef readonly Timers timers
    cdef readonly Admission admission
    cdef readonly Inbound inbound
    cdef readonly Visits visits
    cdef public list inboxes
    cdef readonly bint closed, is_guarded
    cdef readonly dict handoffs, carried
    cdef readonly dict helpers
    cdef readonly unsigned long long ended_sent, ended_handled
    cdef readonly bint ticking
    cdef readonly unsigned long long ticks

    cpdef double now(self) except? -1.0
    cdef _require_own_thread(self, str what)
    cdef _require_own(self, Cell cell)
    @cython.locals(cell=Cell)
    cpdef Cell spawn(self, object handler, object subject=*, object mailbox=*, bint exempt=*)
    cdef _guard(self, Cell cell)
    cpdef retire(self, Cell cell, object why=*)
    cdef _close_account(self, Cell cell)
    @cython.locals(timer=Timer, now=double)
    cpdef Timer start_timer(
        self, double delay, Cell target, object message, double interval=*, bint fixed_rate=*, Cell owner=*
    )
    cpdef cancel_timers(self, Cell cell)
    @cython.locals(now=double, takes_in=bint)
    cpdef tick(self)
    @cython.locals(inbox=ShardedInbox, inboxes=list, moved=Py_ssize_t)
    cdef _serve_inboxes(self, double now, bint takes_in)
    cdef bint _leaves_brought(self) except? True
    @cython.locals(timer=Alarm, fired=int)
    cdef _fire_due(self, double now)
    cpdef bint has_work(self)
