"""Whole programs in the manner of the Savina suite, written with Greenroom."""
