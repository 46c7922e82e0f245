"""What a simulation swaps in: schedules, and a director that decides and records."""
