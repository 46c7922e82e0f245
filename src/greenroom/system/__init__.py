"""The system: where actors live, from the first spawn to the last word of the shutdown."""
