"""The harness: one actor, stepped by hand, and what it did to the world around it."""
