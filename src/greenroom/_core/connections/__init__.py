"""Connections: rings between two threads, and the inbox that drains those of one group of cells."""
