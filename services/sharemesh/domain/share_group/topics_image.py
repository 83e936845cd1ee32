"""The topics that exist, as the group coordinator sees them."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from sharemesh.domain.ids import TopicId


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; partitions are numbered from 0."""

    name: str
    topic_id: TopicId
    partitions: int


class TopicsImage:
    """All topics at one moment; another moment is another object, so identity tells a change."""

    def __init__(self, topics: Iterable[TopicImage] = ()) -> None:
        self.topics = tuple(topics)
        self._by_name = {topic.name: topic for topic in self.topics}
        self._by_id = {topic.topic_id: topic for topic in self.topics}

    def named(self, name: str) -> TopicImage | None:
        """Return the topic of this name."""
        return self._by_name.get(name)

    def with_id(self, topic_id: TopicId) -> TopicImage | None:
        """Return the topic with this id."""
        return self._by_id.get(topic_id)

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Return a signed 64-bit hash of those of the named topics that exist (spec GC-14).

        It changes when one is created, deleted, created anew or gets partitions; 0 if none exists.
        """
        found = sorted(
            (topic.name, topic.topic_id, topic.partitions)
            for name in names
            if (topic := self._by_name.get(name)) is not None
        )
        if not found:
            return 0
        digest = blake2b(digest_size=8)
        for name, topic_id, partitions in found:
            digest.update(b"%s\0%s%d\0" % (name.encode(), topic_id, partitions))
        return int.from_bytes(digest.digest(), "big", signed=True)
