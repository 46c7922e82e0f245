import cython
cimport greenroom._core.generators
from greenroom._core.capi cimport COMPILED, call_method, caller, is_tracked, new_object, thread_ident, untrack
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.scheduler.host cimport HostBase
from greenroom._core.scheduler.loop cimport Loop
from greenroom.actor.life.spec cimport ActorClassInfo, ActorSpec, args_of, class_info_of, spec_of
from greenroom.actor.messaging.address cimport Address
from greenroom.actor.records.record cimport ActorRecord, ChildList, Tombstone, tombstone_of
from greenroom.actor.records.record cimport track_actor, untrack_actor, untrack_instance

cdef Py_ssize_t TRACKED, HISTORY_KEPT
cdef int CREATED, STARTING, RUNNING, STOPPING, STOPPED, TERMINATED, RESTING, ESCALATED, STOPPING_POST_STOP, NO_MORE_CHILDREN
cdef int ENDED, OFFLOADED, INTERCEPTED, BEHAVIOR, CLASS, HANDLER
cdef int _START_ORDER, _CLOSE_ORDER, _MADE, _LEFT, _DONE
cdef tuple _REASONS
cdef tuple COMES_BACK, GOES_DOWN, RUNS_POST_STOP, WAITS_FOR_CHILDREN
cdef list _ROWS, _STATE_OF
cdef object HALT, PRE_START, POST_START, PRE_STOP, POST_STOP
cdef object START, STOP, STOP_ITSELF, SHUT_DOWN, KILL, CLOSE
cdef object NORMAL, SHUTDOWN, KILLED
cdef object Actor, ActorRef, LoopContext, SAME, STOPPED_BEHAVIOR
cdef dict _NO_KWARGS

@cython.final
cdef class _Row:
    cdef readonly int stage, then
    cdef readonly tuple actions

cdef _Row _START, _STOP, _ALONE

@cython.final
cdef class Lifecycle(HostBase):
    cdef readonly object system
    cdef readonly Loop loop
    cdef readonly object pickled
    cdef public object poller
    cdef public object settings
    cdef public object mailbox
    cdef readonly ChildList top
    cdef public Cell root
    cdef public bint closed
    cdef bint _keeps_history
    cdef readonly bint has_placement
    cdef readonly unsigned long long spawned
    cdef readonly unsigned long long terminated
    cdef readonly dict resting
    cdef readonly dict restarting
    cdef dict _places
    cdef public object discards
    cdef readonly object forced
    cdef object _site, _counter
    cdef ActorSpec _spec
    cpdef serve(self, Loop loop)
    @cython.locals(foreign=bint)
    cpdef bint is_foreign(self)
    @cython.locals(spec=ActorSpec, child_list=ChildList, cell=Cell, ref=Address, record=ActorRecord, above=ActorRecord)
    cpdef object spawn(
        self,
        object factory,
        tuple args,
        object kwargs,
        Address parent,
        object name,
        object mailbox,
        object settings,
        object drain,
        object dispatcher=*,
        object site=*,
    )
    @cython.locals(child_list=ChildList)
    cdef ChildList _new_child_list(self, ActorRecord record)
    @cython.locals(record=ActorRecord, spec=ActorSpec, class_info=ActorClassInfo)
    cdef object _start(self, Cell cell)
    @cython.locals(row=_Row)
    cpdef object advance(self, Cell cell, ActorRecord record, int event)
    cdef object _go_on(self, Cell cell, ActorRecord record, _Row row, Py_ssize_t position)
    cdef object _go_on_after(self, object procedure, Cell cell, ActorRecord record, _Row row, Py_ssize_t position)
    cdef _run(self, Cell cell, ActorRecord record)
    cdef object _start_with_hooks(self, Cell cell, ActorRecord record, ActorClassInfo class_info)
    cdef object _end_with_hooks(self, Cell cell, ActorRecord record, ActorClassInfo class_info, object reason)
    cdef object _call_own_hook(self, Cell cell, ActorRecord record, ActorClassInfo class_info, str name, object signal, bint has_hook)
    @cython.locals(following=_Row)
    cpdef object _carry_on(self, Cell cell, ActorRecord record, _Row row, Py_ssize_t position)
    @cython.locals(state=int)
    cpdef enter(self, ActorRecord record, int stage)
    @cython.locals(spec=ActorSpec, class_info=ActorClassInfo)
    cpdef ActorClassInfo class_info_now(self, Cell cell, ActorRecord record)
    @cython.locals(class_info=ActorClassInfo)
    cpdef object call_hook(self, Cell cell, ActorRecord record, str name, object signal)
    cpdef object try_hook(self, Cell cell, ActorRecord record, str name, object signal)
    cpdef request_end(self, Cell cell, object reason)
    @cython.locals(record=ActorRecord, class_info=ActorClassInfo, is_plain=bint)
    cpdef object _end(self, Cell cell, object reason)
    @cython.locals(ref=Address, parent=Address, above=ActorRecord, child_list=ChildList)
    cpdef finish(self, Cell cell, ActorRecord record, object reason)
    cdef _tell_system(self, Cell cell, object reason)
    @cython.locals(record=ActorRecord)
    cdef _tell_parent(self, Cell cell, Address ref, object reason, object restart_state)
    @cython.locals(class_info=ActorClassInfo)
    cdef bint _cares_for_children(self, Cell cell, ActorRecord record) except? False
    cpdef set_deadline(self, Cell cell, ActorRecord record)
    cpdef clear_deadline(self, ActorRecord record)
    @cython.locals(ref=Address)
    cdef Address _new_ref(self, Cell cell, object name, object parent)
