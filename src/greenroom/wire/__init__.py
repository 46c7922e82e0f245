"""Bytes between processes and nodes: encoding values as frames, and sending frames."""
