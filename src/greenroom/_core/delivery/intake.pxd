import cython
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED

# A queue with many producers and one consumer, after Dmitry Vyukov: a producer swaps `last`, `first` is the consumer's
# own, and its link is one whose entry has been taken already. A link's `next` is written once, by the thread that
# appended the one behind it. The garbage collector sees what is in here, as in any container: in a free-threaded
# interpreter it stops all threads before, and no thread can be stopped inside of these functions.
cdef extern from *:
    """
    #include <stddef.h>
    #if defined(_MSC_VER)
      #include <intrin.h>
      #define greenroom_swap_pointer(where, value) _InterlockedExchangePointer((void *volatile *)(where), (value))
      #define greenroom_load_pointer(where) (*(void *volatile *)(where))
      #define greenroom_store_pointer(where, value) (*(void *volatile *)(where) = (value))
    #else
      #define greenroom_swap_pointer(where, value) __atomic_exchange_n((where), (value), __ATOMIC_ACQ_REL)
      #define greenroom_load_pointer(where) __atomic_load_n((where), __ATOMIC_ACQUIRE)
      #define greenroom_store_pointer(where, value) __atomic_store_n((where), (value), __ATOMIC_RELEASE)
    #endif

    typedef struct greenroom_link {
        struct greenroom_link *next;
        PyObject *entry[4];
    } greenroom_link;

    typedef struct {
        greenroom_link *last;
        char apart[64 - sizeof(void *)];  /* producers write `last`: the consumer's own stands on another cache line */
        greenroom_link *first;
        greenroom_link *end;  /* the last that is taken for now; the consumer's own too */
    } greenroom_chain;

    static inline int greenroom_chain_start(greenroom_chain *chain) {
        greenroom_link *link = (greenroom_link *)PyMem_RawCalloc(1, sizeof(greenroom_link));
        if (link == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        chain->first = chain->last = chain->end = link;
        return 0;
    }

    static inline int greenroom_chain_append(greenroom_chain *chain, PyObject *cell, PyObject *lane, PyObject *message,
                                             PyObject *sender) {
        greenroom_link *before, *link = (greenroom_link *)PyMem_RawMalloc(sizeof(greenroom_link));
        if (link == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        link->next = NULL;
        link->entry[0] = Py_NewRef(cell);
        link->entry[1] = Py_NewRef(lane);
        link->entry[2] = Py_NewRef(message);
        link->entry[3] = Py_NewRef(sender);
        before = (greenroom_link *)greenroom_swap_pointer(&chain->last, link);
        greenroom_store_pointer(&before->next, link);
        return 0;
    }

    static inline greenroom_link *greenroom_chain_next(greenroom_link *link) {
        return (greenroom_link *)greenroom_load_pointer(&link->next);
    }

    static inline int greenroom_chain_waits(greenroom_chain *chain) {
        return greenroom_load_pointer(&chain->last) != chain->first;
    }

    static inline void greenroom_chain_begin(greenroom_chain *chain) {
        chain->end = (greenroom_link *)greenroom_load_pointer(&chain->last);
    }

    static inline int greenroom_chain_has(greenroom_chain *chain) {
        return chain->first != chain->end && greenroom_chain_next(chain->first) != NULL;
    }

    static inline void greenroom_chain_drop(greenroom_chain *chain) {
        greenroom_link *first = chain->first, *next = first->next;
        int part;
        chain->first = next;
        PyMem_RawFree(first);
        for (part = 0; part < 4; part++) {
            PyObject *object = next->entry[part];
            next->entry[part] = NULL;
            Py_XDECREF(object);
        }
    }

    static inline void greenroom_chain_clear(greenroom_chain *chain) {
        while (chain->first != NULL && greenroom_chain_next(chain->first) != NULL)
            greenroom_chain_drop(chain);
    }

    static inline void greenroom_chain_end(greenroom_chain *chain) {
        greenroom_chain_clear(chain);
        PyMem_RawFree(chain->first);
        chain->first = chain->last = NULL;
    }

    /* Cython's own two functions do not know of the chain. */
    static traverseproc greenroom_traverse_fields;
    static inquiry greenroom_clear_fields;
    static Py_ssize_t greenroom_chain_offset;

    static int greenroom_traverse_chain(PyObject *self, visitproc visit, void *arg) {
        greenroom_link *link = ((greenroom_chain *)((char *)self + greenroom_chain_offset))->first;
        while (link != NULL && (link = greenroom_chain_next(link)) != NULL) {
            int part;
            for (part = 0; part < 4; part++)
                Py_VISIT(link->entry[part]);
        }
        return greenroom_traverse_fields(self, visit, arg);
    }

    static int greenroom_clear_chain(PyObject *self) {
        greenroom_chain_clear((greenroom_chain *)((char *)self + greenroom_chain_offset));
        return greenroom_clear_fields(self);
    }

    static void greenroom_show_chain(PyObject *of_type, Py_ssize_t offset) {
        PyTypeObject *type = (PyTypeObject *)of_type;
        if (greenroom_traverse_fields == NULL) {
            greenroom_traverse_fields = type->tp_traverse;
            greenroom_clear_fields = type->tp_clear;
            greenroom_chain_offset = offset;
            type->tp_traverse = greenroom_traverse_chain;
            type->tp_clear = greenroom_clear_chain;
        }
    }
    """
    ctypedef struct greenroom_link:
        PyObject *entry[4]
    ctypedef struct greenroom_chain:
        greenroom_link *first
    int greenroom_chain_start(greenroom_chain *) except -1
    int greenroom_chain_append(greenroom_chain *, object, object, object, object) except -1
    bint greenroom_chain_waits(greenroom_chain *) noexcept
    greenroom_link *greenroom_chain_next(greenroom_link *) noexcept
    void greenroom_chain_end(greenroom_chain *)
    void greenroom_chain_begin(greenroom_chain *) noexcept
    bint greenroom_chain_has(greenroom_chain *) noexcept
    void greenroom_chain_drop(greenroom_chain *)
    void greenroom_show_chain(PyObject *, Py_ssize_t offset)

cdef object deque

@cython.final
cdef class Intake:
    cdef greenroom_chain chain
    cdef object _entries
    cdef Py_ssize_t _left
    cpdef put(self, object cell, object lane, object message, object sender)
    @cython.locals(waits=bint)
    cpdef bint waiting(self)
    cpdef begin(self)
    @cython.locals(has=bint)
    cpdef bint has_next(self)
    cpdef tuple first(self)
    cpdef drop_first(self)

cdef inline int start_chain(Intake intake) except -1:
    return greenroom_chain_start(&intake.chain)

cdef inline void end_chain(Intake intake):
    greenroom_chain_end(&intake.chain)

cdef inline int append_link(Intake intake, object cell, object lane, object message, object sender) except -1:
    return greenroom_chain_append(&intake.chain, cell, lane, message, sender)

cdef inline bint has_links(Intake intake) noexcept:
    return greenroom_chain_waits(&intake.chain)

cdef inline void drop_link(Intake intake):
    greenroom_chain_drop(&intake.chain)

cdef inline bint has_entry(Intake intake) noexcept:
    return greenroom_chain_has(&intake.chain)

cdef inline void begin_chain(Intake intake) noexcept:
    greenroom_chain_begin(&intake.chain)

# The four parts of the oldest entry, which must be there. What is moved elsewhere is replaced by NULL.
cdef inline PyObject **entry_parts(Intake intake) noexcept:
    return greenroom_chain_next(intake.chain.first).entry

cdef inline tuple entry_tuple(PyObject **entry):
    return <object>entry[0], <object>entry[1], <object>entry[2], <object>entry[3]

cdef inline list links_of(Intake intake):
    cdef list found = []
    cdef greenroom_link *link = greenroom_chain_next(intake.chain.first)
    while link != NULL:
        found.append(entry_tuple(link.entry))
        link = greenroom_chain_next(link)
    return found

cdef inline void show_links():
    cdef Intake intake = Intake()
    greenroom_show_chain(<PyObject *>Intake, <char *>&intake.chain - <char *><void *>intake)
