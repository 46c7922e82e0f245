import cython
cimport greenroom._core.generators

cdef object Actor, Behavior, Props
cdef dict _NO_KWARGS

@cython.final
cdef class ActorClassInfo:
    cdef public object ambiguous
    cdef readonly object actor_class, answers, label, handler, hooks
    cdef readonly bint keeps_state, starts_plainly, ends_plainly, cares_for_children
    cdef readonly bint has_pre_start, has_post_start, has_pre_stop, has_post_stop, has_on_signal
    cdef public bint proven
    cdef readonly ActorSpec spec

@cython.final
cdef class ActorSpec:
    cdef readonly int kind
    cdef readonly object factory, label
    cdef readonly dict kwargs
    cdef readonly ActorClassInfo class_info
    cpdef bint is_proven(self) except? False

@cython.locals(class_info=ActorClassInfo)
cpdef ActorSpec spec_of(object factory, object args, object kwargs)
cpdef object args_of(object factory, object args)
@cython.locals(known=ActorClassInfo)
cpdef ActorClassInfo class_info_of(object actor_class)
