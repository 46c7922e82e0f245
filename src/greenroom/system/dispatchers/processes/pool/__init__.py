"""Worker processes, in the main process: starting them, and sending work to them."""
