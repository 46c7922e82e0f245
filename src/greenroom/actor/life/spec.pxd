import cython
cimport greenroom._core.generators

cdef object Actor, Behavior, Props
cdef dict _NOTHING

@cython.final
cdef class Blueprint:
    cdef readonly object actor_class, label, handler, hooks
    cdef readonly bint plain, keeps_state
    cdef readonly Spec spec

@cython.final
cdef class Settings:
    cdef readonly object supervision, env

@cython.final
cdef class Spec:
    cdef readonly int kind
    cdef readonly object factory, args, kwargs, label
    cdef readonly Blueprint blueprint

@cython.locals(blueprint=Blueprint)
cpdef Spec spec_of(object factory, object args, object kwargs)
@cython.locals(known=Blueprint)
cpdef Blueprint blueprint_of(object actor_class)
