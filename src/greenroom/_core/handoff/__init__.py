"""Work that is handed off to another thread, and comes back to the loop."""
