from greenroom._core.capi cimport COMPILED, caller
from greenroom.actor.life.spec cimport ActorClassInfo, class_info_of
from greenroom.actor.messaging.address cimport Address
from greenroom.actor.lifecycle cimport Lifecycle

cdef object Actor, MailboxConfig, Drain, BY_CONTEXT, BY_OFFLOADED

cdef class Spawner:
    cdef readonly Lifecycle _life
    cpdef Lifecycle _choose_life(self, object dispatcher, object factory, object name)

cdef Lifecycle _life_of(Lifecycle life, object parent)
