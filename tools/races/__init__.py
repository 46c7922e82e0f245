"""Races every public operation of a system from many threads: what a runtime without a GIL has to bear."""
