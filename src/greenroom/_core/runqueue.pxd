import cython
from cpython.ref cimport PyObject
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from greenroom._core.capi cimport COMPILED, drop, new_reference, pass_on

cdef extern from *:
    """
    /* As in a ring: for the one type `RunQueue`, whose cells are plain pointers. A list would be young whenever it has
       grown, and the garbage collector would touch every cell in each of its next collections. */
    static traverseproc greenroom_traverse_rest_of_queue;
    static Py_ssize_t greenroom_cells_offset, greenroom_place_offset;

    static int greenroom_traverse_queue(PyObject *self, visitproc visit, void *arg) {
        PyObject **cells = *(PyObject ***)((char *)self + greenroom_cells_offset);
        const Py_ssize_t *place = (Py_ssize_t *)((char *)self + greenroom_place_offset);
        const Py_ssize_t mask = place[0], head = place[1];
        Py_ssize_t held = place[2];
        while (--held >= 0)
            Py_VISIT(cells[(head + held) & mask]);
        return greenroom_traverse_rest_of_queue(self, visit, arg);
    }

    static inline void greenroom_show_queue(PyObject *of_type, Py_ssize_t cells, Py_ssize_t place) {
        PyTypeObject *type = (PyTypeObject *)of_type;
        greenroom_cells_offset = cells;
        greenroom_place_offset = place;
        greenroom_traverse_rest_of_queue = type->tp_traverse;
        type->tp_traverse = greenroom_traverse_queue;
    }
    """
    void greenroom_show_queue(object, Py_ssize_t cells, Py_ssize_t place) noexcept

cdef class AdmissionBase:
    cpdef admit(self, object cell, object message, object sender, object lane)

cdef class InboundBase:
    cpdef tell(self, object cell, object message, object sender, object lane)
    cpdef send(self, object cell, object message, object sender, object lane)

@cython.final
cdef class RunQueue:
    cdef readonly unsigned long thread
    cdef PyObject **cells
    cdef readonly Py_ssize_t mask, head, count  # the collector finds them side by side
    cdef public object current_ref, rouse
    cdef public InboundBase inbound
    cdef public AdmissionBase admission
    cdef public bint asleep
    cdef object __weakref__
    cpdef int push(self, object cell) except -1
    cpdef make_room(self, Py_ssize_t cells)
    cpdef wake(self)
    @cython.locals(head=Py_ssize_t)
    cpdef object take(self)
    cpdef object at(self, Py_ssize_t position)
    cpdef bring_forward(self, Py_ssize_t position)
    @cython.locals(old=list, new=list)
    cdef _grow(self)

cdef inline void put_cell(RunQueue runq, Py_ssize_t index, object cell) noexcept:
    runq.cells[index] = new_reference(cell)

cdef inline object take_cell(RunQueue runq, Py_ssize_t index):
    return pass_on(runq.cells[index])

cdef inline object cell_at(RunQueue runq, Py_ssize_t position):
    return <object>runq.cells[(runq.head + position) & runq.mask]

cdef inline void bring_cell_forward(RunQueue runq, Py_ssize_t position) noexcept:
    cdef PyObject *chosen = runq.cells[(runq.head + position) & runq.mask]
    while position > 0:
        runq.cells[(runq.head + position) & runq.mask] = runq.cells[(runq.head + position - 1) & runq.mask]
        position -= 1
    runq.cells[runq.head] = chosen

cdef inline int make_cells(RunQueue runq, Py_ssize_t size) except -1:
    cdef PyObject **new = <PyObject **>PyMem_Malloc(size * sizeof(PyObject *))
    cdef Py_ssize_t position
    if new == NULL:
        raise MemoryError()
    for position in range(runq.count):
        new[position] = runq.cells[(runq.head + position) & runq.mask]
    PyMem_Free(runq.cells)
    runq.cells = new
    runq.mask = size - 1
    runq.head = 0
    return 0

cdef inline void free_cells(RunQueue runq) noexcept:
    while runq.count > 0:
        runq.count -= 1
        drop(runq.cells[(runq.head + runq.count) & runq.mask])
    PyMem_Free(runq.cells)

cdef inline void show_queue(RunQueue runq) noexcept:
    cdef char *start = <char *><void *>runq
    greenroom_show_queue(RunQueue, <char *>&runq.cells - start, <char *>&runq.mask - start)
