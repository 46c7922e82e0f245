"""Greenroom's side of every row: one program per work, run as ``python -m benchmarks.ours.NAME``."""
