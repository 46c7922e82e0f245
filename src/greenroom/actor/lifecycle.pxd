import cython
cimport greenroom._core.generators
from greenroom._core.capi cimport COMPILED, caller, is_tracked, new_object, untrack
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.endinghost cimport EndingHost
from greenroom.actor.messaging.address cimport Address
from greenroom.actor.records.record cimport ActorRecord, ChildList, tombstone_of
from greenroom.actor.life.gctracking cimport track_actor, untrack_actor, untrack_instance
from greenroom.actor.life.spec cimport ActorClassInfo, ActorSpec, args_of, class_info_of, spec_of

cdef Py_ssize_t TRACKED
cdef int WAITING, CLOSING
cdef int HELD, OFFLOADED, INTERCEPTED, CREATED, STARTING, RUNNING, BEHAVIOR, CLASS, HANDLER
cdef object NORMAL, SHUTDOWN, KILLED, LoopContext
cdef dict _NO_KWARGS
cdef int _STARTED
cdef object START, STOP_ITSELF
cdef object SAME, STOPPED_BEHAVIOR, PRE_START, POST_START

@cython.final
cdef class Lifecycle(EndingHost):
    cdef public object mailbox
    cdef bint _keeps_history
    cdef readonly bint has_placement
    cdef readonly unsigned long long spawned
    cdef object _site, _counter
    cdef ActorSpec _spec
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
    cpdef object _start_with_hooks(self, Cell cell, ActorRecord record, ActorClassInfo class_info)
    cpdef begin_to_run(self, Cell cell, ActorRecord record)
