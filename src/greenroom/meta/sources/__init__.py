"""Files and signals as meta-processes."""
