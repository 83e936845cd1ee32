"""Spans, metrics and log lines of share partitions, derived from events and effects."""
