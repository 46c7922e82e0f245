"""The peers' side of the rows: the same work as in ``benchmarks.ours``, one program per work."""
