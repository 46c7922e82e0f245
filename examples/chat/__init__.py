"""A chat in the browser."""
