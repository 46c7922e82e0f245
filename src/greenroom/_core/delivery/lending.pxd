# References that one thread takes and another drops, and numbers that go from one to the other.

from cpython.ref cimport PyObject

cdef extern from *:
    """
    /* Without a GIL, the thread that made an object counts the references it takes and drops apart from those of all
       others. One that it took and another thread drops unbalances the two: the object is sent back to its thread, with
       a lock and an interruption, and is counted by slow steps from then on. So a reference that is handed over is
       counted among those of the others, where it is taken and where it is dropped. */
    #if defined(Py_GIL_DISABLED) && !defined(_MSC_VER)
      #define GREENROOM_ONE ((Py_ssize_t)1 << _Py_REF_SHARED_SHIFT)
      static inline PyObject *greenroom_lend(PyObject *object) {
          if (__atomic_load_n(&object->ob_ref_local, __ATOMIC_RELAXED) != _Py_IMMORTAL_REFCNT_LOCAL)
              __atomic_fetch_add(&object->ob_ref_shared, GREENROOM_ONE, __ATOMIC_RELAXED);
          return object;
      }
      static inline void greenroom_give_back(PyObject *object) {
          if (_Py_IsOwnedByCurrentThread(object)) {  /* so it has references of its own, and stays */
              Py_ssize_t shared = __atomic_load_n(&object->ob_ref_shared, __ATOMIC_RELAXED);
              while (shared >= GREENROOM_ONE)
                  if (__atomic_compare_exchange_n(&object->ob_ref_shared, &shared, shared - GREENROOM_ONE, 1,
                                                  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                      return;
          }
          Py_DECREF(object);
      }
    #else
      #define greenroom_lend(object) Py_NewRef(object)
      #define greenroom_give_back(object) Py_DECREF(object)
    #endif

    /* CPython keeps the memory of a number that is let go of for the next number of the same thread. Without a GIL, that
       may be memory of another thread's, beside the numbers which that one works with: two threads that do nothing but
       add would fight over a cache line, and take four times as long. So a thread that is handed a number makes one like
       it, of its own, and the other's memory goes back. */
    #if defined(Py_GIL_DISABLED) && !defined(_MSC_VER)
      static inline PyObject *greenroom_like_number(PyObject *object) {
          PyObject *number = NULL;
          if (__atomic_load_n(&object->ob_ref_local, __ATOMIC_RELAXED) == _Py_IMMORTAL_REFCNT_LOCAL)
              return NULL;
          if (PyLong_CheckExact(object) && PyUnstable_Long_IsCompact((PyLongObject *)object))
              number = PyLong_FromSsize_t(PyUnstable_Long_CompactValue((PyLongObject *)object));
          else if (PyFloat_CheckExact(object))
              number = PyFloat_FromDouble(PyFloat_AS_DOUBLE(object));
          else
              return NULL;
          if (number == NULL)
              PyErr_Clear();  /* no memory: the other's will do */
          return number;
      }
      static inline void greenroom_own_number(PyObject **lent) {
          PyObject *object = *lent, *number = greenroom_like_number(object);
          Py_ssize_t last = GREENROOM_ONE | _Py_REF_MERGED;
          if (number == NULL)
              return;
          *lent = number;
          /* When nobody else has it, it is freed here: the usual way leads to this thread's numbers. It is counted down to
             nothing first, so that a thread which has just found it somewhere sees that it is gone. */
          if (__atomic_compare_exchange_n(&object->ob_ref_shared, &last, _Py_REF_MERGED, 0, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED))
              Py_TYPE(object)->tp_free(object);
          else
              greenroom_give_back(object);
      }
      static inline PyObject *greenroom_own_value(PyObject *object) {
          PyObject *number = greenroom_like_number(object);
          return number != NULL ? number : Py_NewRef(object);
      }
    #else
      #define greenroom_own_number(lent) ((void)(lent))
      #define greenroom_own_value(object) Py_NewRef(object)
    #endif
    """
    void own_number "greenroom_own_number" (PyObject **lent) noexcept
    object own_value "greenroom_own_value" (object)
