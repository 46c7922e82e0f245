import cython
cimport greenroom._core.generators
from greenroom._core.capi cimport caller, new_object
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.messagehost cimport MessageHost
from greenroom.actor.messaging.address cimport Address
from greenroom.actor.records.record cimport ActorRecord, ChildList, Tombstone, tombstone_of
from greenroom.actor.life.spec cimport ActorClassInfo, ActorSpec, spec_of

cdef bint COMPILED
cdef int HELD, OFFLOADED, INTERCEPTED, CREATED, STARTING, RUNNING, STOPPING, STOPPED, TERMINATED
cdef Py_ssize_t HISTORY_KEPT
cdef object NORMAL, SHUTDOWN, KILLED, ContextRecord
cdef object STOP_IN_ORDER, SAME, STOPPED_BEHAVIOR

@cython.final
cdef class Lifecycle(MessageHost):
    cdef public object settings, mailbox
    cdef bint _keeps_history
    cdef readonly bint has_placement
    cdef readonly ChildList top
    cdef public Cell root
    cdef public bint closed
    cdef readonly unsigned long long spawned, terminated
    cdef readonly dict resting
    cdef public object discards
    cdef readonly object forced
    cdef object _site, _start_order, _stop_order, _own_stop_order, _shutdown_order, _kill_order, _close_order
    @cython.locals(spec=ActorSpec, child_list=ChildList, cell=Cell, ref=Address, record=ActorRecord)
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
        object site=*,
    )
    cdef ChildList _family_of(self, Address parent)
    cpdef enter(self, ActorRecord record, int state)
    @cython.locals(record=ActorRecord, spec=ActorSpec, class_info=ActorClassInfo)
    cpdef object _start(self, Cell cell)
    cpdef begin_to_run(self, Cell cell, ActorRecord record)
    cpdef behavior_returned(self, Cell cell, object behavior)
    cpdef request_end(self, Cell cell, object reason)
    cpdef object _stop(self, Cell cell)
    cpdef object _stop_itself(self, Cell cell)
    cpdef object _shut_down(self, Cell cell)
    cpdef object _kill(self, Cell cell)
    @cython.locals(record=ActorRecord)
    cpdef object _end(self, Cell cell, object reason)
    @cython.locals(spec=ActorSpec, class_info=ActorClassInfo)
    cdef bint _is_plain(self, ActorRecord record)
    @cython.locals(ref=Address, parent=Address, child_list=ChildList)
    cpdef finish(self, Cell cell, ActorRecord record, object reason)
    cdef _tell_system(self, Cell cell, object reason)
    @cython.locals(record=ActorRecord)
    cdef _tell_parent(self, Cell cell, Address ref, object reason, object restart_state)
    cpdef set_deadline(self, Cell cell, ActorRecord record)
    cpdef clear_deadline(self, ActorRecord record)
