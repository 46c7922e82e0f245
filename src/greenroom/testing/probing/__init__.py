"""Probes: actors that a test holds in its hand."""
