import cython
from greenroom._core.capi cimport COMPILED, can_be_tracked, is_tracked, new_object, track, untrack
from greenroom._core.mailbox.cell cimport Cell

cdef object NORMAL, SHUTDOWN, KILLED

cdef class ActorRecord:
    cdef readonly Cell cell
    cdef public object spec, watchers, extras, reason
    cdef public tuple args
    cdef public ChildList child_list
    cdef public int stage, state
    cdef ActorRecord _next, _previous

cpdef attach_record(ActorRecord record, Cell cell, object spec, tuple args)

@cython.final
cdef class Settings:
    cdef readonly object supervision, env, stop_timeout

@cython.final
cdef class ChildList:
    cdef ActorRecord _first, _last
    cdef readonly Py_ssize_t count
    cdef readonly dict names
    cdef Tombstone _left
    cpdef set_up(self)
    cpdef share_names(self, dict names)
    cpdef ActorRecord named(self, str name)
    cpdef require_free(self, str name, object parent)
    @cython.locals(last=ActorRecord)
    cpdef add(self, ActorRecord record, object name)
    cpdef put_before(self, ActorRecord record, ActorRecord younger)
    cpdef remove(self, ActorRecord record, object name)
    cdef _unlink(self, ActorRecord record)
    @cython.locals(left=Tombstone)
    cpdef Tombstone tombstone_of(self, object reason, object name, object parent, object history)
    @cython.locals(last=ActorRecord)
    cpdef ActorRecord youngest(self)
    @cython.locals(record=ActorRecord)
    cpdef list records(self)

@cython.final
cdef class Tombstone:
    cdef readonly object reason, name, parent, history
    cdef set_up(self, object reason, object name, object parent, object history)

@cython.locals(tombstone=Tombstone)
cpdef Tombstone tombstone_of(object reason, object name, object parent, object history)

cpdef untrack_actor(ActorRecord record)
cpdef untrack_instance(ActorRecord record, object actor)
cpdef track_actor(ActorRecord record)
cpdef track_instance(ActorRecord record)
cdef _track(object thing)
