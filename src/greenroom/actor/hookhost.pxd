import cython
from greenroom._core.capi cimport COMPILED, call_method
from greenroom._core.mailbox.cell cimport Cell
from greenroom.actor.life.spec cimport ActorClassInfo, ActorSpec, class_info_of
from greenroom.actor.messagehost cimport MessageHost
from greenroom.actor.records.record cimport ActorRecord

cdef object Actor
cdef Py_ssize_t HISTORY_KEPT

cdef class HookHost(MessageHost):
    cpdef enter(self, ActorRecord record, int state)
    @cython.locals(spec=ActorSpec, class_info=ActorClassInfo)
    cpdef ActorClassInfo class_info_now(self, Cell cell, ActorRecord record)
    cpdef object try_hook(self, Cell cell, ActorClassInfo class_info, str name, object signal, bint has_hook)
    cpdef object call_hook(self, Cell cell, ActorClassInfo class_info, str name, object signal, bint has_hook)
