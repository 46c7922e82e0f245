"""Simulations: actors on a virtual clock, in an order that a seed decides."""
