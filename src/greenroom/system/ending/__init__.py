"""How a system ends: its shutdown in phases, the report on it, and signals."""
