"""The further loops of a system that has several. A system with one imports nothing of this."""
