"""Refs, asks, signals, timers, stash and dead letters: everything that carries or keeps a message."""
