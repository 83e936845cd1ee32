"""Placement of topic-partitions on leaders."""
