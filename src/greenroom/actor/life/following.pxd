from greenroom._core.capi cimport can_be_tracked, is_tracked, track, untrack
from greenroom.actor.life.spec cimport ActorSpec
from greenroom.actor.records.record cimport ActorRecord

cdef bint COMPILED

cpdef leave_unfollowed(ActorRecord record, ActorSpec spec)
cpdef leave_instance_unfollowed(ActorRecord record, object actor)
cpdef follow_again(ActorRecord record, ActorSpec spec)
cpdef follow_instance(ActorRecord record)
cdef _follow(object thing)
