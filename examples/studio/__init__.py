"""An animation in the terminal that goes on while its engine is killed.

troupe     the manifest: start reading here
vsync      the clock, and what the settings are
engine     computes frames from ticks, with its pod mate: the settings
plasma     what the frames look like
display    draws whole frames on the main thread, and reads the keyboard
telemetry  counts frames and restarts
messages   what they send to one another
"""
