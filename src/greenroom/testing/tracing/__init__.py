"""Traces of simulations: events, and sequence diagrams in Mermaid and SVG."""
