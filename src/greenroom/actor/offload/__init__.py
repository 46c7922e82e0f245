"""Actors whose code runs on another thread, or in another process."""
