"""The loops of a system: the thread of each, what is run there from others, and when nothing is left to do."""
