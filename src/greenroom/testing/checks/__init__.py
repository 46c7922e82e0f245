"""Checks for the end of a test: ledgers, lifecycles, logs and leaks."""
