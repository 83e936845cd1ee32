"""Durable state of share partitions: records, fold, fencing."""
