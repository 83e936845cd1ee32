"""Generations: compaction, files, commit."""
