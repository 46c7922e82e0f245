from greenroom.actor.messaging.address cimport Address
from greenroom.actor.lifecycle cimport Lifecycle

cdef object MailboxConfig, Drain

cdef class Spawner:
    cdef readonly Lifecycle _life
