"""Dispatchers: they decide on which thread, or in which process, the code of an actor runs."""
