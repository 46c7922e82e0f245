"""How pods are reached: handles, the registry that reconnects them, and waiting for room or for a restart."""
