"""Which partitions a member has, by topic."""

from collections.abc import Mapping
from types import MappingProxyType

from sharemesh.domain.ids import TopicId

Assignment = Mapping[TopicId, tuple[int, ...]]
"""Partitions ascending; topics without partitions are absent, so that equal means equal."""

NOTHING: Assignment = MappingProxyType({})


def nothing() -> Assignment:
    """Return the assignment without partitions."""
    return NOTHING
