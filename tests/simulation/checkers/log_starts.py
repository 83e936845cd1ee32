"""Promise 1 below the log start: a record goes only if somebody asked for it, or it is old."""

from collections.abc import Callable

from sharemesh.backends.embedded.owned.owned_log import OwnedLog
from sharemesh.codec.log_layout import record_log_path
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
        real_init, real_commit = OwnedLog.__init__, OwnedLog.commit

        def init(log, *arguments, **words):
            real_init(log, *arguments, **words)
            self.begins(log.path, log.log_start_offset)

        def commit(log, data, end_offset, log_start_offset):
            place = real_commit(log, data, end_offset, log_start_offset)
            self.begins(log.path, log.log_start_offset)
            return place

        patches.setattr(OwnedLog, "__init__", init)
        patches.setattr(OwnedLog, "commit", commit)

    def begins(self, path: str, start_offset: int) -> None:
        """A log begins here now."""
        before = self._known.get(path, 0)
        if start_offset <= before:
            return
        self._known[path] = start_offset
        partition = self._partition(path)
        if partition is None:
            return
        for offset in range(before, start_offset):
            value = self._journal.produced_values.get((partition, offset))
            if value is not None and not self._may_be_deleted(partition, offset, value):
                text = f"{partition}@{offset} was confirmed, and the log begins at {start_offset}"
                self._world.event_log.violation(self._world.now_s, f"{text}: nobody had it deleted")

    def _partition(self, path: str) -> str | None:
        """Return how journals call the partition of a record log, None for other logs."""
        number = int(path.rpartition("/")[2])
        for topic_id, name in self._world.topic_names.items():
            if path == record_log_path(TopicId(topic_id), number):
                return f"{name}/{number}"
        return None
