"""The worker process: its main function, its host, and stubs for what is in the main process."""
