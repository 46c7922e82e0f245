"""What stands in for the network in a simulation, where there are no sockets."""
