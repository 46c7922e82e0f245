"""The worker's side: its main function, its host, and stubs for what stayed in the main process."""
