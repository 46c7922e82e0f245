"""TCP, UDP and Unix sockets as meta-processes."""
