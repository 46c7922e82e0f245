"""Milliseconds that ``import greenroom`` adds to a program that has asyncio and logging already.

Nothing else is imported before the clock stops, or Greenroom's own imports would come for free.
"""

import asyncio
import logging
import sys
import time

_BEFOREHAND = (asyncio, logging)


def measure() -> float:
    """Seconds of the import; an error names any module from outside the standard library."""
    known = set(sys.modules)
    start = time.perf_counter()
    import greenroom  # noqa: F401

    seconds = time.perf_counter() - start
    foreign = sorted(name for name in set(sys.modules) - known if _is_third_party(name))
    if foreign:
        raise RuntimeError(f"importing greenroom brings in third-party modules: {', '.join(foreign)}")
    return seconds


def _is_third_party(name: str) -> bool:
    top = name.partition(".")[0]
    if top == "greenroom" or top in sys.stdlib_module_names:
        return False
    # Cython registers fileless modules of its own to share types between extensions.
    return getattr(sys.modules[name], "__file__", None) is not None


if __name__ == "__main__":
    _seconds = measure()
    from benchmarks.program import Report, main

    main(lambda _: Report(_seconds * 1e3))
