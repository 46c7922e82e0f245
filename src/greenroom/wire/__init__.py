"""Bytes between processes and nodes: how values become frames, and how frames travel."""
