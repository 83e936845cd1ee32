"""Turns of those who compete for the processor of one process (docs/spec/fairness.md)."""
