cimport greenroom._core.generators

cdef class ObserverHooks:
    cdef public double slow_after
    cdef list _observers
    cdef object _lock
    cdef public bint actor_started, actor_stopped, actor_restarted, escalated
    cdef public bint mailbox_full, message_dropped, dead_letter, slow_handler, stuck_handler, pod_changed
