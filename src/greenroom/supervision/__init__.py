"""Supervisors: actors that start, stop and restart their children, by the plans of `policy`."""
