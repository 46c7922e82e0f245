"""WebSockets, on both sides."""
