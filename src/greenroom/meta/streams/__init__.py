"""What all sources of bytes have in common: frames, an owner that is told, limits, and time."""
