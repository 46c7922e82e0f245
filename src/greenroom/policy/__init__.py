"""Supervision as pure values and functions: nothing in here knows actors, loops or time.

Exits, specs and moments come in, decisions and plans go out; the floors above carry them out.
"""
