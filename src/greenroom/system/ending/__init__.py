"""How a system ends: what it finishes first, its shutdown in phases, signals, and what becomes of its block."""
