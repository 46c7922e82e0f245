"""A TCP server, with its supervision tree."""
