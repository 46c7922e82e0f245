"""What the runtime writes down about one actor, and the protocols that lower rooms use for upper ones."""
