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
    """
    unsigned long long counter "greenroom_counter" () noexcept nogil

cdef bint COMPILED
cdef double _LEARNING_TIME

cdef class Pace:
    cdef object _now
    cdef readonly double seconds
    cdef double _deadline, _origin, _per_second
    cdef unsigned long long _count_at_origin
    cdef unsigned long long began, allowed
    cpdef double now(self) except? -1.0
    cpdef double begin(self) except? -1.0
    cpdef bint spent(self) except? True
    cdef _allow(self, double now)
