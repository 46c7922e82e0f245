"""Bugs that no ordinary test finds, each with a program that a simulation makes fail.

Run one with ``python -m examples.bugs.lost_update``.
"""
