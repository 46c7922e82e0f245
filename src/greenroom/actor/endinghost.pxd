import cython
cimport greenroom._core.generators
from greenroom._core.capi cimport COMPILED, is_tracked
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.hookhost cimport HookHost
from greenroom.actor.life.gctracking cimport leads_only_up, leave_remains, track_actor, track_instance, track_what_leads_to
from greenroom.actor.life.spec cimport ActorClassInfo, class_info_of
from greenroom.actor.messaging.address cimport Address
from greenroom.actor.records.record cimport ActorRecord, ChildList, Tombstone

cdef int CREATED, RUNNING, STOPPING, STOPPED, TERMINATED, NONE, LEAVING, WAITING, CLOSING
cdef object NORMAL, SHUTDOWN, KILLED, PRE_STOP, POST_STOP, Actor
cdef object STOP, STOP_ITSELF, SHUT_DOWN, KILL, CLOSE
cdef int _STOPPED, _STOPPED_ITSELF, _SHUT_DOWN, _KILLED

cdef class EndingHost(HookHost):
    cdef public object settings
    cdef readonly ChildList top
    cdef public Cell root
    cdef public bint closed
    cdef readonly unsigned long long terminated
    cdef readonly dict resting
    cdef dict _places
    cdef public object discards
    cdef readonly object forced
    cdef Cell _ending_cell
    cdef object _ending_as
    cpdef request_end(self, Cell cell, object reason)
    cpdef object carry_out(self, Cell cell, int what)
    @cython.locals(record=ActorRecord, class_info=ActorClassInfo, has_children=bint)
    cpdef object _end(self, Cell cell, object reason)
    cpdef object _end_with_hooks(self, Cell cell, ActorRecord record, ActorClassInfo class_info, object reason)
    @cython.locals(ref=Address, parent=Address, above=ActorRecord, child_list=ChildList, is_hidden=bint)
    cpdef finish(self, Cell cell, ActorRecord record, object reason)
    cdef _tell_system(self, Cell cell, object reason)
    @cython.locals(record=ActorRecord)
    cdef _tell_parent(self, Cell cell, Address ref, object reason, object restart_state)
    @cython.locals(class_info=ActorClassInfo)
    cdef bint _cares_for_children(self, Cell cell, ActorRecord record) except? False
    cpdef set_deadline(self, Cell cell, ActorRecord record)
    cpdef clear_deadline(self, ActorRecord record)
