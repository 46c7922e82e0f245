"""Programs of the operating system, as a supervised pipeline."""
