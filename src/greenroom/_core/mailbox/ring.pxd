import cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED, drop, new_reference, pass_on

cdef extern from *:
    """
    /* Cython's own two functions do not know what is in a ring: it holds plain pointers. These are for the one type
       `Ring`, and all that inherit from it; where its fields are is written down once. No other thread can look, and no
       collection begin, between a slot's change and that of `head` or `count`. */
    static traverseproc greenroom_traverse_rest;
    static inquiry greenroom_clear_rest;
    static Py_ssize_t greenroom_own_offset, greenroom_mask_offset, greenroom_head_offset, greenroom_count_offset;

    #define GREENROOM_FIELD(type, self, field) ((type *)((char *)(self) + greenroom_##field##_offset))

    static inline PyObject **greenroom_slots(PyObject **own, int mask) {
        return mask == 1 ? own : (PyObject **)own[0];
    }

    static int greenroom_traverse_ring(PyObject *self, visitproc visit, void *arg) {
        const int mask = *GREENROOM_FIELD(int, self, mask), head = *GREENROOM_FIELD(int, self, head);
        PyObject **slots = greenroom_slots(GREENROOM_FIELD(PyObject *, self, own), mask);
        int held = 2 * *GREENROOM_FIELD(int, self, count);
        while (--held >= 0)
            Py_VISIT(slots[(head + held) & mask]);
        return greenroom_traverse_rest(self, visit, arg);
    }

    static int greenroom_clear_ring(PyObject *self) {
        int *head = GREENROOM_FIELD(int, self, head), *count = GREENROOM_FIELD(int, self, count);
        while (*count > 0) {  /* what goes may send something here */
            const int mask = *GREENROOM_FIELD(int, self, mask);
            PyObject **slots = greenroom_slots(GREENROOM_FIELD(PyObject *, self, own), mask) + *head;
            PyObject *message = slots[0], *sender = slots[1];
            *head = (*head + 2) & mask;
            --*count;
            Py_DECREF(message);
            Py_DECREF(sender);
        }
        return greenroom_clear_rest(self);
    }

    static inline void greenroom_show_ring(
            PyObject *of_type, Py_ssize_t own, Py_ssize_t mask, Py_ssize_t head, Py_ssize_t count) {
        PyTypeObject *type = (PyTypeObject *)of_type;
        greenroom_own_offset = own;
        greenroom_mask_offset = mask;
        greenroom_head_offset = head;
        greenroom_count_offset = count;
        greenroom_traverse_rest = type->tp_traverse;
        greenroom_clear_rest = type->tp_clear;
        type->tp_traverse = greenroom_traverse_ring;
        type->tp_clear = greenroom_clear_ring;
    }
    """
    PyObject **greenroom_slots(PyObject **own, int mask) noexcept
    void greenroom_show_ring(object, Py_ssize_t own, Py_ssize_t mask, Py_ssize_t head, Py_ssize_t count) noexcept

cdef int NO_SLOTS, SMALLEST, KEPT

cdef class Ring:
    # Not used, but a class without such a field is none for the garbage collector.
    cdef object buf
    # Two slots, or the address of an array instead. A slot has a reference iff a message stands there.
    cdef PyObject *own[2]
    cdef readonly int mask, head, count
    cpdef set_up_ring(self)
    cpdef push(self, object message, object sender)
    @cython.locals(head=int)
    cpdef push_front(self, object message, object sender)
    cpdef object first_sender(self)
    cpdef object pop(self)
    cpdef object message_at(self, int position)
    cpdef object sender_at(self, int position)
    cdef _put(self, int slot, object message, object sender)
    cdef object _at(self, int slot)
    @cython.locals(messages=list, senders=list, slot=int, last=int)
    cpdef tuple peek(self, int position, int most)
    cpdef object remove(self, int position)
    cpdef grow(self)
    cpdef trim(self)

cdef inline PyObject **slots_of(Ring ring) noexcept:
    return greenroom_slots(ring.own, ring.mask)

cdef inline object slot_at(Ring ring, int slot):
    return <object>slots_of(ring)[slot]

# To slots that are free.
cdef inline void put_at(Ring ring, int slot, object message, object sender) noexcept:
    cdef PyObject **slots = slots_of(ring) + slot
    slots[0] = new_reference(message)
    slots[1] = new_reference(sender)

# As `put_at`, with the references that `entry` has to the two.
cdef inline void move_at(Ring ring, int slot, PyObject **entry) noexcept:
    cdef PyObject **slots = slots_of(ring) + slot
    slots[0] = entry[0]
    slots[1] = entry[1]
    entry[0] = entry[1] = NULL

# The first message, whose reference the caller has from now on, as it has that of the sender, in `sender`.
cdef inline PyObject *take_first(Ring ring, PyObject **sender) noexcept:
    cdef PyObject **slots = slots_of(ring) + ring.head
    sender[0] = slots[1]
    ring.head = (ring.head + 2) & ring.mask
    ring.count -= 1
    return slots[0]

cdef inline object pop_first(Ring ring):
    cdef PyObject *sender
    cdef object message = pass_on(take_first(ring, &sender))
    drop(sender)
    return message

# The messages before `position` move up by one.
cdef inline void bring_to_front(Ring ring, int position) noexcept:
    cdef PyObject **slots = slots_of(ring)
    cdef int slot = (ring.head + position * 2) & ring.mask, before
    cdef PyObject *message = slots[slot]
    cdef PyObject *sender = slots[slot + 1]
    while slot != ring.head:
        before = (slot - 2) & ring.mask
        slots[slot] = slots[before]
        slots[slot + 1] = slots[before + 1]
        slot = before
    slots[slot] = message
    slots[slot + 1] = sender

cdef inline int grow_array(Ring ring) except -1:
    cdef int size = SMALLEST if ring.mask == NO_SLOTS else 2 * (ring.mask + 1)
    cdef PyObject **old = slots_of(ring)
    cdef PyObject **new = <PyObject **>PyMem_Malloc(size * sizeof(PyObject *))
    cdef int held
    if new == NULL:
        raise MemoryError()
    for held in range(2 * ring.count):
        new[held] = old[(ring.head + held) & ring.mask]
    if ring.mask != NO_SLOTS:
        PyMem_Free(old)
    ring.own[0] = <PyObject *>new
    ring.mask = size - 1
    ring.head = 0
    return 0

cdef inline void free_array(Ring ring) noexcept:
    if ring.mask != NO_SLOTS:
        PyMem_Free(slots_of(ring))
    ring.mask = NO_SLOTS
    ring.head = 0

cdef inline void show_ring(Ring ring) noexcept:
    cdef char *start = <char *><void *>ring
    greenroom_show_ring(
        Ring, <char *>ring.own - start, <char *>&ring.mask - start, <char *>&ring.head - start, <char *>&ring.count - start
    )
