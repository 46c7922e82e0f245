"""The system's side of worker processes: starting them, and sending work to them."""
