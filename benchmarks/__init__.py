"""Greenroom against its peers: ``python -m benchmarks`` prints one table of ratios and targets."""
