"""Simulations: actors on a virtual clock, scheduled by a seed."""
