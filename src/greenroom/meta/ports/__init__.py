"""Programs as meta-processes."""
