"""Test probes: actors whose messages a test reads and answers."""
