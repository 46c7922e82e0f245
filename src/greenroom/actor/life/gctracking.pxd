from greenroom._core.capi cimport COMPILED, can_be_tracked, is_tracked, track, untrack
from greenroom.actor.life.spec cimport ActorSpec
from greenroom.actor.records.record cimport ActorRecord


cpdef untrack_actor(ActorRecord record, ActorSpec spec)
cpdef untrack_instance(ActorRecord record, object actor)
cpdef track_actor(ActorRecord record, ActorSpec spec)
cpdef track_instance(ActorRecord record)
cdef _track(object thing)
