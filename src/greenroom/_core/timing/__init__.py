"""Clocks, deadlines and the time budget of a tick."""
