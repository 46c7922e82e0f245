"""Runs one program at many seeds, and shrinks the first failure."""
