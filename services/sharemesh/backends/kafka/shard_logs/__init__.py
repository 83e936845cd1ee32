"""Shard logs as partitions of two topics: the stamped log (docs/spec/stamped-log.md)."""
