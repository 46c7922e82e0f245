"""One life, step by step: start, restart, end, and what forces an end."""
