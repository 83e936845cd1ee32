"""Composition roots of processes, and the supervisor of a local cluster."""
