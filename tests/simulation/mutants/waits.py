"""Bugs of what waits: for deadlines, for reads, for records beside partitions in error."""

from heapq import heappop

from sharemesh.domain.share_partition.cache.record_status import LockIndex
from sharemesh.share_leader.requests.access import PartitionLookup
from sharemesh.share_leader.requests.delayed_share_fetch import DelayedShareFetch
from sharemesh.share_leader.requests.share_fetch import ShareFetch
from sharemesh.tasks import OwnedTasks
from tests.simulation.patching import Patches


def dead_locks_are_waited_for(patch: Patches) -> None:
    """A lock that ended becomes the next deadline when the one before it expires."""

    def pop_due(index, now_ms):
        heap = index.waiting
        if not heap or heap[0][0] > now_ms:
            return None
        lock = heappop(heap)[2]
        lock.fired, lock.waits = True, False
        return lock

    patch.setattr(LockIndex, "pop_due", pop_due)


def a_failed_read_is_not_heard(patch: Patches) -> None:
    """A share partition hears of the errors that somebody thought of, and of no other."""
    real = OwnedTasks.spawn_heard

    def spawn_heard(tasks, work, hear):
        def hear_some(outcome):
            if not isinstance(outcome, OSError):
                hear(outcome)

        return real(tasks, work, hear_some)

    patch.setattr(OwnedTasks, "spawn_heard", spawn_heard)


def a_refused_partition_ends_the_wait(patch: Patches) -> None:
    """A fetch does not wait for records beside a partition that is led elsewhere."""
    real_find, real_wait = PartitionLookup.find, ShareFetch._wait
    refused = []

    def find(sources, *arguments):
        found = real_find(sources, *arguments)
        refused[:] = found[1]
        return found

    async def wait(fetch, waiting, wait_ms):
        return await real_wait(fetch, waiting, 0 if refused else wait_ms)

    patch.setattr(PartitionLookup, "find", find)
    patch.setattr(ShareFetch, "_wait", wait)


def a_failed_initialization_ends_every_wait(patch: Patches) -> None:
    """A member that knows that a partition fails is told again and again."""
    real = DelayedShareFetch.__init__

    def begin(wait, runners, **words):
        real(wait, runners, **{**words, "known_errors": frozenset()})

    patch.setattr(DelayedShareFetch, "__init__", begin)
