import cython
cimport greenroom._core.generators
from greenroom._core.mailbox.cell cimport Cell, thread_ident
from greenroom._core.scheduler.loop cimport Loop
from greenroom._core.receipt cimport Slip
from greenroom.actor.messaging.address cimport Address
from greenroom.actor.records.record cimport Body, Family, Obituary, new_object, obituary_of
from greenroom.actor.life.spec cimport Blueprint, Spec, spec_of

cdef bint COMPILED
cdef int AWAY, GUARDED, CREATED, STARTING, RUNNING, STOPPING, STOPPED, TERMINATED
cdef object NORMAL, SHUTDOWN, KILLED, Context, ActorRef, STOP_IN_ORDER, SAME_VERDICT, STOPPED_VERDICT

@cython.final
cdef class Lifecycle:
    cdef readonly object port
    cdef readonly Loop loop
    cdef public object settings, mailbox
    cdef bint _keeps_history
    cdef readonly bint is_placing
    cdef readonly Family top
    cdef public Cell root
    cdef public bint closed
    cdef readonly unsigned long long spawned, terminated
    cdef readonly dict forced, resting
    cdef readonly object pickled
    cdef object _start_order, _stop_order, _shutdown_order, _kill_order, _close_order
    cpdef serve(self, Loop loop)
    @cython.locals(foreign=bint)
    cpdef bint is_foreign(self)
    @cython.locals(spec=Spec, family=Family, cell=Cell, ref=Address, body=Body)
    cpdef object spawn(
        self,
        object factory,
        object args,
        object kwargs,
        object parent,
        object name,
        object mailbox,
        object settings,
        object drain,
        object dispatcher=*,
    )
    @cython.locals(ref=Address)
    cdef Address _new_ref(self, Cell cell, object name, object parent)
    cdef Family _family_of(self, Address parent)
    cpdef enter(self, Body body, int state)
    @cython.locals(body=Body, spec=Spec, blueprint=Blueprint)
    cpdef object _start(self, Cell cell)
    cpdef begin_to_run(self, Cell cell, Body body)
    cpdef verdict(self, Cell cell, object verdict)
    cpdef request_end(self, Cell cell, object reason)
    cpdef object _stop(self, Cell cell)
    cpdef object _shut_down(self, Cell cell)
    cpdef object _kill(self, Cell cell)
    @cython.locals(body=Body)
    cpdef object _end(self, Cell cell, object reason)
    @cython.locals(spec=Spec, blueprint=Blueprint)
    cdef bint _is_plain(self, Body body)
    @cython.locals(ref=Address, parent=Address, family=Family)
    cpdef finish(self, Cell cell, Body body, object reason)
    cdef _tell_system(self, Cell cell, object reason)
    @cython.locals(body=Body)
    cdef _tell_parent(self, Cell cell, Address ref, object reason, object standing)
    cpdef set_deadline(self, Cell cell, Body body)
    cpdef clear_deadline(self, Body body)
