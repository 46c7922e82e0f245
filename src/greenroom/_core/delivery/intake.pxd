import cython
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED

# A queue with many producers and one consumer, after Dmitry Vyukov: `last` is swapped by whoever appends, `first` is the
# consumer's own, and its link is one whose entry has been taken already. A link's `next` is written once, by the thread
# that appended the one behind it. The garbage collector sees what is in here, as in any container: in a free-threaded
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

    static inline int greenroom_chain_waits(greenroom_chain *chain) {
        return greenroom_load_pointer(&chain->last) != chain->first;
    }

    static inline void greenroom_chain_begin(greenroom_chain *chain) {
        chain->end = (greenroom_link *)greenroom_load_pointer(&chain->last);
    }

    static inline int greenroom_chain_has(greenroom_chain *chain) {
        return chain->first != chain->end && greenroom_load_pointer(&chain->first->next) != NULL;
    }

    static inline PyObject **greenroom_chain_first(greenroom_chain *chain) {
        return chain->first->next->entry;
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

    /* Moves the oldest entry's references into `entry`; 0 when there is none. */
    static inline int greenroom_chain_take(greenroom_chain *chain, PyObject **entry) {
        greenroom_link *first = chain->first;
        greenroom_link *next = (greenroom_link *)greenroom_load_pointer(&first->next);
        int part;
        if (next == NULL)
            return 0;
        for (part = 0; part < 4; part++) {
            entry[part] = next->entry[part];
            next->entry[part] = NULL;
        }
        chain->first = next;
        PyMem_RawFree(first);
        return 1;
    }

    static inline PyObject *greenroom_entry_tuple(PyObject **entry) {
        PyObject *tuple = PyTuple_New(4);
        int part;
        for (part = 0; part < 4; part++) {
            if (tuple == NULL)
                Py_DECREF(entry[part]);
            else
                PyTuple_SET_ITEM(tuple, part, entry[part]);
        }
        return tuple;
    }

    static inline PyObject *greenroom_chain_take_tuple(greenroom_chain *chain) {
        PyObject *entry[4];
        if (!greenroom_chain_take(chain, entry))
            Py_RETURN_NONE;
        return greenroom_entry_tuple(entry);
    }

    static PyObject *greenroom_chain_list(greenroom_chain *chain) {
        PyObject *found = PyList_New(0);
        greenroom_link *link = chain->first;
        while (found != NULL && (link = (greenroom_link *)greenroom_load_pointer(&link->next)) != NULL) {
            PyObject *entry[4], *tuple;
            int part;
            for (part = 0; part < 4; part++)
                entry[part] = Py_NewRef(link->entry[part]);
            tuple = greenroom_entry_tuple(entry);
            if (tuple == NULL || PyList_Append(found, tuple) < 0)
                Py_CLEAR(found);
            Py_XDECREF(tuple);
        }
        return found;
    }

    static inline void greenroom_chain_end(greenroom_chain *chain) {
        PyObject *entry[4];
        int part;
        if (chain->first == NULL)
            return;
        while (greenroom_chain_take(chain, entry))
            for (part = 0; part < 4; part++)
                Py_DECREF(entry[part]);
        PyMem_RawFree(chain->first);
        chain->first = chain->last = NULL;
    }

    /* Cython's own two functions do not know of the chain. */
    static traverseproc greenroom_traverse_fields;
    static inquiry greenroom_clear_fields;
    static Py_ssize_t greenroom_chain_offset;

    static int greenroom_chain_traverse(PyObject *self, visitproc visit, void *arg) {
        greenroom_link *link = ((greenroom_chain *)((char *)self + greenroom_chain_offset))->first;
        while (link != NULL && (link = (greenroom_link *)greenroom_load_pointer(&link->next)) != NULL) {
            int part;
            for (part = 0; part < 4; part++)
                Py_VISIT(link->entry[part]);
        }
        return greenroom_traverse_fields(self, visit, arg);
    }

    static int greenroom_chain_clear(PyObject *self) {
        greenroom_chain *chain = (greenroom_chain *)((char *)self + greenroom_chain_offset);
        PyObject *entry[4];
        int part;
        while (chain->first != NULL && greenroom_chain_take(chain, entry))
            for (part = 0; part < 4; part++)
                Py_DECREF(entry[part]);
        return greenroom_clear_fields(self);
    }

    static void greenroom_show_chain(PyObject *of_type, Py_ssize_t offset) {
        PyTypeObject *type = (PyTypeObject *)of_type;
        if (greenroom_traverse_fields == NULL) {
            greenroom_traverse_fields = type->tp_traverse;
            greenroom_clear_fields = type->tp_clear;
            greenroom_chain_offset = offset;
            type->tp_traverse = greenroom_chain_traverse;
            type->tp_clear = greenroom_chain_clear;
        }
    }
    """
    ctypedef struct greenroom_chain:
        pass
    int greenroom_chain_start(greenroom_chain *) except -1
    int greenroom_chain_append(greenroom_chain *, object, object, object, object) except -1
    bint greenroom_chain_waits(greenroom_chain *) noexcept
    int greenroom_chain_take(greenroom_chain *, PyObject **) noexcept
    object greenroom_chain_take_tuple(greenroom_chain *)
    object greenroom_chain_list(greenroom_chain *)
    void greenroom_chain_end(greenroom_chain *)
    void greenroom_chain_begin(greenroom_chain *) noexcept
    bint greenroom_chain_has(greenroom_chain *) noexcept
    PyObject **greenroom_chain_first(greenroom_chain *) noexcept
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
    @cython.locals(entry=tuple)
    cpdef tuple take(self)
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

cdef inline object take_link(Intake intake):
    return greenroom_chain_take_tuple(&intake.chain)

cdef inline void drop_link(Intake intake):
    greenroom_chain_drop(&intake.chain)

cdef inline object links_of(Intake intake):
    return greenroom_chain_list(&intake.chain)

cdef inline bint has_entry(Intake intake) noexcept:
    return greenroom_chain_has(&intake.chain)

cdef inline void begin_chain(Intake intake) noexcept:
    greenroom_chain_begin(&intake.chain)

# The four parts of the oldest entry, which must be there. What is moved elsewhere is replaced by NULL.
cdef inline PyObject **entry_parts(Intake intake) noexcept:
    return greenroom_chain_first(&intake.chain)

cdef inline tuple entry_tuple(Intake intake):
    cdef PyObject **entry = entry_parts(intake)
    return <object>entry[0], <object>entry[1], <object>entry[2], <object>entry[3]

cdef inline void show_links():
    cdef Intake intake = Intake()
    greenroom_show_chain(<PyObject *>Intake, <char *>&intake.chain - <char *><void *>intake)
