"""What happened in a simulation, to read and to look at."""
