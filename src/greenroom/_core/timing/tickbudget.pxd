import cython
from greenroom._core.capi cimport COMPILED
from greenroom._core.world cimport VirtualClock

cdef extern from *:
    """
    #if defined(__x86_64__) || defined(__i386__) || defined(_M_X64)
      #ifdef _MSC_VER
        #include <intrin.h>
      #else
        #include <x86intrin.h>
      #endif
      static inline unsigned long long greenroom_counter(void) { return __rdtsc(); }
    #elif defined(__aarch64__) && defined(__GNUC__)
      static inline unsigned long long greenroom_counter(void) {
          unsigned long long value;
          __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
          return value;
      }
    #else
      #include <time.h>
      static inline unsigned long long greenroom_counter(void) {
          struct timespec now;
          timespec_get(&now, TIME_UTC);
          return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
      }
    #endif
    #if defined(__linux__)
      #include <time.h>
      #define GREENROOM_READS_CLOCK 1
      static inline double greenroom_machine_time(void) {  /* what time.monotonic() would say */
          struct timespec now;
          clock_gettime(CLOCK_MONOTONIC, &now);
          return (double)((long long)now.tv_sec * 1000000000ll + now.tv_nsec) / 1e9;
      }
    #else
      #define GREENROOM_READS_CLOCK 0
      static inline double greenroom_machine_time(void) { return 0.0; }
    #endif
    """
    unsigned long long counter "greenroom_counter" () noexcept nogil
    bint READS_CLOCK "GREENROOM_READS_CLOCK"
    double machine_time "greenroom_machine_time" () noexcept nogil

cdef unsigned long long _QUICK
cdef double _LEARNING_TIME

@cython.final
cdef class TickBudget:
    cdef object _clock
    cdef bint _is_machine
    cdef VirtualClock _virtual
    cdef readonly double seconds
    cdef double _deadline, _last, _origin, _per_second
    cdef unsigned long long _count_at_origin
    cdef unsigned long long began, allowed, quick
    @cython.locals(time=double)
    cpdef double now(self) except? -1.0
    cpdef double begin(self) except? -1.0
    cpdef bint spent(self) except? True
    cdef _allow(self, double now)
    cpdef double since(self, unsigned long long mark)
