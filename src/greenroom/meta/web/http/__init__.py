"""HTTP: one connection, its requests and their responses."""
