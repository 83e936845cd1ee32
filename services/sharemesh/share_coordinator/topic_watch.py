"""Notices topics that disappear from the cluster's view (spec SC-25)."""

from collections.abc import Callable

from sharemesh.domain.ids import TopicId
from sharemesh.ports.cluster import ClusterView


class TopicWatch:
    """Calls back with topics that this process has seen and that are gone.

    A topic that was never seen is never reported: a view that is still empty deletes nothing.
    """

    def __init__(self, view: ClusterView, on_deleted: Callable[[frozenset[TopicId]], None]) -> None:
        self._view = view
        self._on_deleted = on_deleted
        self._seen: frozenset[TopicId] = frozenset()
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._unsubscribe = self._view.on_change(self._changed)
        self._changed()

    def close(self) -> None:
        """Stop. Repeating it is fine."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _changed(self) -> None:
        present = frozenset(topic.topic_id for topic in self._view.topics())
        deleted = self._seen - present
        self._seen = present
        if deleted:
            self._on_deleted(deleted)
