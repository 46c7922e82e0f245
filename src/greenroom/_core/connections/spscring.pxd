import cython
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED, pass_on

cdef object deque
cdef list _made

cdef extern from *:
    """
    #include <stddef.h>
    #if defined(_MSC_VER)
      #include <intrin.h>
      #define greenroom_spsc_load(where) (_ReadWriteBarrier(), *(volatile size_t *)(where))
      #define greenroom_spsc_store(where, value) (_ReadWriteBarrier(), (void)(*(volatile size_t *)(where) = (value)))
      #define greenroom_spsc_set(where, bits) ((void)_InterlockedOr64((volatile long long *)(where), (long long)(bits)))
      #define greenroom_spsc_unset(where, bits) \\
          ((void)_InterlockedAnd64((volatile long long *)(where), ~(long long)(bits)))
      static inline int greenroom_spsc_swap(size_t *where, size_t before, size_t after) {
          return (size_t)_InterlockedCompareExchange64((volatile long long *)where, (long long)after, (long long)before)
              == before;
      }
    #else
      #define greenroom_spsc_load(where) __atomic_load_n((where), __ATOMIC_ACQUIRE)
      #define greenroom_spsc_store(where, value) __atomic_store_n((where), (value), __ATOMIC_RELEASE)
      #define greenroom_spsc_set(where, bits) ((void)__atomic_fetch_or((where), (bits), __ATOMIC_ACQ_REL))
      #define greenroom_spsc_unset(where, bits) ((void)__atomic_fetch_and((where), ~(bits), __ATOMIC_ACQ_REL))
      static inline int greenroom_spsc_swap(size_t *where, size_t before, size_t after) {
          return __atomic_compare_exchange_n(where, &before, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
      }
    #endif

    #define GREENROOM_SPSC_CLOSED ((size_t)1 << (8 * sizeof(size_t) - 1))

    /* The i-th message stands at slots[(head + i) & mask]; head and tail only grow, and tail has the bit of a closed ring.
       The consumer writes `head`, the producer `tail` and, for itself, the head that it has seen last. */
    typedef struct {
        PyObject **slots;
        size_t mask, capacity;
        char apart[64 - 3 * sizeof(size_t)];
        size_t head;
        char apart_too[64 - sizeof(size_t)];
        size_t tail, seen_head;
    } greenroom_spsc;

    static inline int greenroom_spsc_make(greenroom_spsc *ring, Py_ssize_t capacity) {
        size_t size = 1;
        while (size < (size_t)capacity)
            size *= 2;
        ring->slots = (PyObject **)PyMem_RawCalloc(size, sizeof(PyObject *));
        if (ring->slots == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        ring->mask = size - 1;
        ring->capacity = (size_t)capacity;
        return 0;
    }

    static inline size_t greenroom_spsc_count(greenroom_spsc *ring) {
        const size_t head = greenroom_spsc_load(&ring->head);
        return (greenroom_spsc_load(&ring->tail) & ~GREENROOM_SPSC_CLOSED) - head;
    }

    static inline int greenroom_spsc_push(greenroom_spsc *ring, PyObject *message) {
        const size_t tail = greenroom_spsc_load(&ring->tail);
        if (tail & GREENROOM_SPSC_CLOSED)
            return 2;
        if (tail - ring->seen_head >= ring->capacity) {
            ring->seen_head = greenroom_spsc_load(&ring->head);
            if (tail - ring->seen_head >= ring->capacity)
                return 1;
        }
        ring->slots[tail & ring->mask] = Py_NewRef(message);
    #ifdef Py_GIL_DISABLED
        if (!greenroom_spsc_swap(&ring->tail, tail, tail + 1)) {  /* closed meanwhile */
            ring->slots[tail & ring->mask] = NULL;
            Py_DECREF(message);
            return 2;
        }
    #else
        greenroom_spsc_store(&ring->tail, tail + 1);
    #endif
        return 0;
    }

    /* The reference is the caller's from now on. */
    static inline PyObject *greenroom_spsc_take(greenroom_spsc *ring) {
        const size_t head = ring->head;
        PyObject *message = ring->slots[head & ring->mask];
        ring->slots[head & ring->mask] = NULL;
        greenroom_spsc_store(&ring->head, head + 1);
        return message;
    }

    static inline void greenroom_spsc_empty(greenroom_spsc *ring) {
        while (ring->slots != NULL && greenroom_spsc_count(ring) > 0) {
            PyObject *message = greenroom_spsc_take(ring);
            Py_DECREF(message);
        }
    }

    /* Cython's own two functions do not know of the slots. */
    static traverseproc greenroom_spsc_traverse_fields;
    static inquiry greenroom_spsc_clear_fields;
    static Py_ssize_t greenroom_spsc_offset;

    static int greenroom_spsc_traverse(PyObject *self, visitproc visit, void *arg) {
        greenroom_spsc *ring = (greenroom_spsc *)((char *)self + greenroom_spsc_offset);
        size_t held = ring->slots == NULL ? 0 : greenroom_spsc_count(ring);
        while (held-- > 0)
            Py_VISIT(ring->slots[(ring->head + held) & ring->mask]);
        return greenroom_spsc_traverse_fields(self, visit, arg);
    }

    static int greenroom_spsc_clear(PyObject *self) {
        greenroom_spsc_empty((greenroom_spsc *)((char *)self + greenroom_spsc_offset));
        return greenroom_spsc_clear_fields(self);
    }

    static void greenroom_spsc_show(PyObject *of_type, Py_ssize_t offset) {
        PyTypeObject *type = (PyTypeObject *)of_type;
        if (greenroom_spsc_traverse_fields == NULL) {
            greenroom_spsc_traverse_fields = type->tp_traverse;
            greenroom_spsc_clear_fields = type->tp_clear;
            greenroom_spsc_offset = offset;
            type->tp_traverse = greenroom_spsc_traverse;
            type->tp_clear = greenroom_spsc_clear;
        }
    }
    """
    ctypedef struct greenroom_spsc:
        pass
    size_t SPSC_CLOSED "GREENROOM_SPSC_CLOSED"
    int greenroom_spsc_make(greenroom_spsc *, Py_ssize_t) except -1
    size_t greenroom_spsc_count(greenroom_spsc *) noexcept
    int greenroom_spsc_push(greenroom_spsc *, PyObject *) noexcept
    PyObject *greenroom_spsc_take(greenroom_spsc *) noexcept
    void greenroom_spsc_empty(greenroom_spsc *)
    void greenroom_spsc_show(PyObject *, Py_ssize_t)
    void greenroom_spsc_free "PyMem_RawFree" (void *)

cdef extern from *:
    """
    #define greenroom_spsc_close(ring) greenroom_spsc_set(&(ring)->tail, GREENROOM_SPSC_CLOSED)
    #define greenroom_spsc_open(ring) greenroom_spsc_unset(&(ring)->tail, GREENROOM_SPSC_CLOSED)
    #define greenroom_spsc_is_closed(ring) ((greenroom_spsc_load(&(ring)->tail) & GREENROOM_SPSC_CLOSED) != 0)
    #define greenroom_spsc_slots(ring) ((ring)->slots)
    """
    void greenroom_spsc_close(greenroom_spsc *) noexcept
    void greenroom_spsc_open(greenroom_spsc *) noexcept
    bint greenroom_spsc_is_closed(greenroom_spsc *) noexcept
    void *greenroom_spsc_slots(greenroom_spsc *) noexcept

@cython.final
cdef class SpscRing:
    cdef greenroom_spsc ring
    cdef readonly Py_ssize_t capacity
    # Not used, but a class without such a field is none for the garbage collector.
    cdef object _items
    cdef bint _is_closed
    cpdef int push(self, object message) except -1
    cpdef Py_ssize_t count(self)
    cpdef object pop(self)
    cpdef close(self)
    cpdef open(self)
    cpdef bint is_closed(self)

cdef inline int make_slots(SpscRing ring) except -1:
    return greenroom_spsc_make(&ring.ring, ring.capacity)

cdef inline void free_slots(SpscRing ring):
    greenroom_spsc_empty(&ring.ring)
    greenroom_spsc_free(greenroom_spsc_slots(&ring.ring))

cdef inline int push_message(SpscRing ring, object message) noexcept:
    return greenroom_spsc_push(&ring.ring, <PyObject *>message)

cdef inline Py_ssize_t count_messages(SpscRing ring) noexcept:
    return <Py_ssize_t>greenroom_spsc_count(&ring.ring)

cdef inline object take_message(SpscRing ring):
    return pass_on(greenroom_spsc_take(&ring.ring))

# The oldest message with the reference that the ring has: the caller's from now on.
cdef inline PyObject *take_reference(SpscRing ring) noexcept:
    return greenroom_spsc_take(&ring.ring)

cdef inline void close_slots(SpscRing ring) noexcept:
    greenroom_spsc_close(&ring.ring)

cdef inline void open_slots(SpscRing ring) noexcept:
    greenroom_spsc_open(&ring.ring)

cdef inline bint slots_closed(SpscRing ring) noexcept:
    return greenroom_spsc_is_closed(&ring.ring)

cdef inline void show_slots():
    cdef SpscRing ring = SpscRing(1)
    greenroom_spsc_show(<PyObject *>SpscRing, <char *>&ring.ring - <char *><void *>ring)
