"""Promise 1 below the log start: a record goes only if somebody asked for it, or it is old."""

from collections.abc import Callable

from sharemesh.domain.ids import TopicId
from tests.simulation.journal import SimJournal
from tests.simulation.patching import Patches
from tests.simulation.world import World

MayBeDeleted = Callable[[str, int, bytes], bool]


class LogStartChecker:
    """Looks at each move of a log start when it happens: by a commit, and by a take-over."""

    def __init__(self, world: World, journal: SimJournal, may_be_deleted: MayBeDeleted) -> None:
        """``may_be_deleted``: whether a record, by partition, offset and value, may go now."""
        self._world = world
        self._journal = journal
        self._may_be_deleted = may_be_deleted
        self._known: dict[str, int] = {}

    def install(self, patches: Patches) -> None:
        """Look at record logs from now on."""
        self._world.engine.watch_log_starts(patches, self.begins)

    def begins(self, topic_id: TopicId, number: int, start_offset: int) -> None:
        """A log begins here now."""
        name = self._world.topic_names.get(topic_id)
        partition = f"{name}/{number}"
        before = self._known.get(partition, 0)
        if name is None or start_offset <= before:
            return
        self._known[partition] = start_offset
        self._journal.log_begins(partition, start_offset)
        for offset in range(before, start_offset):
            value = self._journal.produced_values.get((partition, offset))
            if value is not None and not self._may_be_deleted(partition, offset, value):
                text = f"{partition}@{offset} was confirmed, and the log begins at {start_offset}"
                self._world.event_log.violation(self._world.now_s, f"{text}: nobody had it deleted")
