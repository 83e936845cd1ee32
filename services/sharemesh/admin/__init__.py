"""Metadata, topics and configs, answered by every process from its watched view."""
