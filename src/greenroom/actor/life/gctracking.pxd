from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED, can_be_tracked, is_tracked, track, untrack
from greenroom._core.gcgenerations cimport is_last_reference
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.runqueue cimport set_thing_aside, track_all_aside
from greenroom.actor.messaging.address cimport Address
from greenroom.actor.records.record cimport ActorRecord

cdef object NORMAL, SHUTDOWN, KILLED

cpdef untrack_actor(ActorRecord record)
cpdef untrack_instance(ActorRecord record, object actor)
cpdef bint leads_only_up(Cell cell, ActorRecord record, object reason) except? False
cpdef leave_remains(ActorRecord record, Cell cell, Address ref)
cpdef track_what_leads_to(ActorRecord record)
cpdef track_actor(ActorRecord record)
cpdef track_instance(ActorRecord record)
cdef _track_record(ActorRecord record)
cdef _track(object thing)

cdef inline bint is_last(ActorRecord record) noexcept:
    return is_last_reference(<PyObject *>record)

cdef inline bint has_last_args(ActorRecord record) noexcept:
    return is_last_reference(<PyObject *>record.args)

cdef inline bint is_subject_last(Cell cell) noexcept:
    return is_last_reference(<PyObject *>cell.subject)
