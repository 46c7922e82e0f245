import cython
cimport greenroom._core.generators
from cpython.ref cimport PyObject
from greenroom._core.capi cimport COMPILED
from greenroom._core.mailbox.cell cimport Cell
from greenroom._core.timing.timers cimport Alarm

cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    PySendResult PyIter_Send(object iterator, object argument, PyObject **result) except? PYGEN_ERROR
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1
    void Py_DECREF(PyObject *)
    Py_ssize_t refcount "Py_REFCNT" (object)

@cython.final
cdef class Yielded:
    cdef object value
    @cython.locals(value=object)
    cdef object take(self)

cdef inline object c_send(object coro, object context, Yielded yielded):
    cdef PyObject *out = NULL
    cdef PySendResult how
    PyContext_Enter(context)
    try:
        how = PyIter_Send(coro, None, &out)
    finally:
        PyContext_Exit(context)
    cdef object value = <object>out
    Py_DECREF(out)
    if how == PYGEN_RETURN:
        return value
    yielded.value = value
    return yielded

cdef int PENDING, FINISHED, FAILED, CANCELLED
cdef object getweakrefcount, _enter_task, _leave_task
cdef Py_ssize_t LENT

cdef object send(object coro, object context, Yielded yielded)
@cython.locals(count=Py_ssize_t)
cdef Py_ssize_t references(object task)
cdef object throw(object coro, object context, object exc, Yielded yielded)

@cython.final
cdef class Stepper:
    cdef public object aio
    cdef readonly object bare
    cdef HandlerTask _entered, _spare
    cdef Yielded _yielded
    cdef object _outer
    cdef _enter(self, HandlerTask task)
    cpdef bint is_current(self)
    cpdef bint is_stepping(self) except? True
    cpdef leave(self)
    @cython.locals(task=HandlerTask)
    cpdef object first(self, object coro, Cell cell)
    cpdef object step(self, HandlerTask task)
    cdef _suspend(self, HandlerTask task, object future)

cdef class Wait(Alarm):
    cdef public HandlerTask waiter
    cpdef remove_done_callback(self, object fn)
    @cython.locals(task=HandlerTask)
    cpdef wake_waiter(self)

@cython.final
cdef class HandlerTask:
    cdef Stepper _stepper
    cdef Cell _cell
    cdef object _aio, _coro, _context, _inject, _result, _exception
    cdef readonly object _waiter, _cancel_message
    cdef public int kind, lane
    cdef public double began
    cdef public object message, sender
    cdef public bint _must_cancel, _asyncio_future_blocking
    cdef int _cancels, _state
    cdef list _callbacks
    cdef object __weakref__
    @cython.locals(wait=Wait)
    cdef _suspend(self, object future)
    cpdef go_on(self)
    cpdef object _make_cancelled_error(self)
    cdef _return(self, object result)
    cdef _fail(self, object exc)
    cdef _finish(self, int state, object result, object exc)
