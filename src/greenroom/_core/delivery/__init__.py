"""How a message gets into a mailbox: from the loop's own thread, and from others."""
