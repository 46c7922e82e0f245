# C functions that several hot modules use. Nothing is compiled for this file itself.

from cpython.ref cimport PyObject

# `COMPILED` of `build` as a constant, so that the other build's half of a function is not even compiled. What a module
# imports into it goes nowhere: this is a new place each time it is named.
cdef extern from *:
    """
    #define GREENROOM_COMPILED ((int){1})
    #ifdef Py_GIL_DISABLED
      #define GREENROOM_HAS_GIL ((int){0})
    #else
      #define GREENROOM_HAS_GIL ((int){1})
    #endif
    """
    bint COMPILED "GREENROOM_COMPILED"
    bint HAS_GIL "GREENROOM_HAS_GIL"

cdef extern from "pythread.h":
    unsigned long thread_ident "PyThread_get_thread_ident" ()

cdef extern from "Python.h":
    void track "PyObject_GC_Track" (object)
    void untrack "PyObject_GC_UnTrack" (object)
    bint can_be_tracked "PyObject_IS_GC" (object)
    bint is_tracked "PyObject_GC_IsTracked" (object)
    object call_method "PyObject_CallMethodNoArgs" (object, object)

# What threads without a GIL tell one another by. With one, a thread sees all that was written before it has got it.
cdef extern from *:
    """
    #if defined(_MSC_VER)
      #include <intrin.h>
      #define greenroom_add_to(where, change) ((int)_InterlockedExchangeAdd((long volatile *)(where), (change)))
    #else
      #define greenroom_add_to(where, change) __atomic_fetch_add((where), (change), __ATOMIC_ACQ_REL)
    #endif
    #if !defined(Py_GIL_DISABLED)
      #define greenroom_fence() ((void)0)
    #elif defined(_MSC_VER)
      #define greenroom_fence() _mm_mfence()
    #else
      #define greenroom_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
    #endif
    """
    int add_to "greenroom_add_to" (int *where, int change) noexcept nogil  # what was there before
    void fence "greenroom_fence" () noexcept nogil

# Without a GIL, the reference count of an object that several threads use is a place they fight over: two loops that
# call one function are half as fast as they could be. So a function that handles messages, and its code, are left to the
# garbage collector, as the interpreter leaves the functions of a module; a call need not count them either, and the
# collector finds them in the frame that runs.
cdef extern from *:
    """
    #if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030E0000
      static inline void greenroom_leave_to_collector(PyObject *handler) {
          if (PyFunction_Check(handler)) {
              PyUnstable_Object_EnableDeferredRefcount(handler);
              PyUnstable_Object_EnableDeferredRefcount(PyFunction_GetCode(handler));
          }
      }
      #define GREENROOM_COUNTS(handler) (!PyFunction_Check(handler))
    #else
      #define greenroom_leave_to_collector(handler) ((void)(handler))
      #define GREENROOM_COUNTS(handler) 1
    #endif

    /* handler(subject, message); all three may be replaced meanwhile. It is called by way of its own slot: to find that
       costs 8 instructions a message; to have it found and what it returns checked, 40 (callgrind, ping-pong). */
    static inline PyObject *greenroom_call_handler(PyObject *handler, PyObject *subject, PyObject *message) {
        PyObject *arguments[3] = {NULL, subject, message}, *result;
        vectorcallfunc call;
        const int counts = GREENROOM_COUNTS(handler);
        if (counts)
            Py_INCREF(handler);
        Py_INCREF(subject);
        Py_INCREF(message);
        result = ((call = PyVectorcall_Function(handler)) ? call : PyObject_Vectorcall)(
            handler, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_DECREF(message);
        Py_DECREF(subject);
        if (counts)
            Py_DECREF(handler);
        return result;
    }
    """
    void leave_to_collector "greenroom_leave_to_collector" (object)
    object greenroom_call_handler(PyObject *, PyObject *, PyObject *)

# Plain pointers that have a reference: one is made, given up, or passed on to the caller. To take an object out
# of an array, instead of making one reference and dropping the other, saves a message some 30 instructions (callgrind,
# ping-pong).
cdef extern from *:
    """
    static inline PyObject *greenroom_pass_on(PyObject *owned) {
        return owned;
    }
    """
    PyObject *new_reference "Py_NewRef" (object) noexcept
    void drop "Py_DECREF" (PyObject *) noexcept
    object pass_on "greenroom_pass_on" (PyObject *)

# Putting an object into a list's slot that is known to be there.
cdef extern from *:
    """
    static inline void greenroom_put(PyObject *slots, Py_ssize_t index, PyObject *value) {
        PyObject *before = PyList_GET_ITEM(slots, index);
        Py_INCREF(value);
        PyList_SET_ITEM(slots, index, value);
        Py_DECREF(before);
    }
    """
    void greenroom_put(PyObject *slots, Py_ssize_t index, object value)

# An object of a class without arguments, by way of the type's own slot: the interpreter's way costs three times as much.
cdef extern from *:
    """
    static PyObject *greenroom_no_arguments = NULL;
    static inline PyObject *greenroom_new_object(PyObject *type) {
        if (greenroom_no_arguments == NULL && (greenroom_no_arguments = PyTuple_New(0)) == NULL)
            return NULL;
        return ((PyTypeObject *)type)->tp_new((PyTypeObject *)type, greenroom_no_arguments, NULL);
    }
    """
    object new_object "greenroom_new_object" (object)

# The code of the caller, and the offset that it has come to. Compiled functions have no frame, so the innermost one
# is the caller's; nothing is kept of it but its code. `last` is returned if that is the same place.
cdef extern from *:
    """
    static inline PyObject *greenroom_caller(int by_context, PyObject *last, PyObject *one_way, PyObject *other_way) {
        PyFrameObject *frame = PyEval_GetFrame();
        PyCodeObject *code;
        PyObject *offset, *site;
        long lasti;
        if (frame == NULL)
            Py_RETURN_NONE;
        Py_INCREF(frame);
        code = PyFrame_GetCode(frame);
        while (by_context && ((PyObject *)code == one_way || (PyObject *)code == other_way)) {
            PyFrameObject *back = PyFrame_GetBack(frame);
            if (back == NULL)
                break;
            Py_DECREF(code);
            Py_DECREF(frame);
            frame = back;
            code = PyFrame_GetCode(frame);
        }
        lasti = PyFrame_GetLasti(frame);
        Py_DECREF(frame);
        if (last != Py_None && PyTuple_GET_ITEM(last, 0) == (PyObject *)code
                && PyLong_AsLong(PyTuple_GET_ITEM(last, 1)) == lasti) {
            Py_DECREF(code);
            Py_INCREF(last);
            return last;
        }
        offset = PyLong_FromLong(lasti);
        site = offset == NULL ? NULL : PyTuple_New(2);
        if (site == NULL) {
            Py_XDECREF(offset);
            Py_DECREF(code);
            return NULL;
        }
        PyTuple_SET_ITEM(site, 0, (PyObject *)code);
        PyTuple_SET_ITEM(site, 1, offset);
        return site;
    }
    """
    object caller "greenroom_caller" (bint, object, object, object)
