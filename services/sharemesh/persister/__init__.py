"""Reads and writes share-partition state through the share coordinators (spec PER)."""
