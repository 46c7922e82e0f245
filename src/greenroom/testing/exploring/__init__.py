"""Many simulations of one program, and the shortest way to what is wrong with it."""
