# A list of objects that the garbage collector does not walk, as CPython's permanent generation is one.
#
# What an actor leaves behind when it has ended, its ref and its cell, may be in use for a while: as the sender of messages
# that wait, say. The collector would walk over all of that again and again, though it leads to nothing but the system,
# which is there anyway. So it stands aside until the system ends. Only then can it be part of what is garbage.

from cpython.ref cimport PyObject

cdef extern from *:
    """
    /* Up to 3.13, whatever the collector tracks stands in one of its lists, by these two words before the object; who
       leaves one, leaves whichever it is. The lowest bit of the second is not ours. From 3.14 on, the collector finds what
       stands aside when it follows references, and without a GIL there are no such lists: there, it tracks these objects as
       it does all others. */
    typedef struct { uintptr_t next, previous; } greenroom_gc_links;
    #if defined(Py_GIL_DISABLED) || PY_VERSION_HEX >= 0x030E0000
      #define GREENROOM_SETS_ASIDE 0
    #else
      #define GREENROOM_SETS_ASIDE 1
    #endif

    static inline void greenroom_set_aside(greenroom_gc_links *aside, PyObject *thing) {
        greenroom_gc_links *own = (greenroom_gc_links *)thing - 1;
        if (!GREENROOM_SETS_ASIDE) {
            if (!PyObject_GC_IsTracked(thing))
                PyObject_GC_Track(thing);
            return;
        }
        if (aside->next == 0)
            aside->next = aside->previous = (uintptr_t)aside;
        PyObject_GC_UnTrack(thing);
        own->next = (uintptr_t)aside;
        own->previous = aside->previous | (own->previous & 1);
        ((greenroom_gc_links *)aside->previous)->next = (uintptr_t)own;
        aside->previous = (uintptr_t)own;
    }

    static inline void greenroom_track_aside(greenroom_gc_links *aside) {
        while (aside->next != 0 && aside->next != (uintptr_t)aside) {
            PyObject *thing = (PyObject *)((greenroom_gc_links *)aside->next + 1);
            PyObject_GC_UnTrack(thing);
            PyObject_GC_Track(thing);
        }
    }

    /* Whether the reference of whoever asks is the last one, so that the object is gone with it and nothing can keep it;
       false where that cannot be known. */
    static inline int greenroom_is_last_reference(PyObject *thing) {
    #ifdef Py_GIL_DISABLED
        return 0;
    #else
        return Py_REFCNT(thing) == 1 && Py_TYPE(thing)->tp_finalize == NULL && Py_TYPE(thing)->tp_del == NULL;
    #endif
    }
    """
    ctypedef struct GCLinks "greenroom_gc_links":
        pass
    void set_aside "greenroom_set_aside" (GCLinks *aside, object thing) noexcept
    void track_aside "greenroom_track_aside" (GCLinks *aside) noexcept
    bint is_last_reference "greenroom_is_last_reference" (PyObject *) noexcept
