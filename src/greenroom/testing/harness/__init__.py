"""The actor harness: steps one actor in a plain test, and records its effects."""
