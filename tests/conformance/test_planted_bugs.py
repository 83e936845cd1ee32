"""Bugs that real share-group code shipped, planted: the test that is named must fail.

Those of the share partition itself are in tests/domain/share_partition/test_mutants.py.
"""

import asyncio
import inspect

import pytest

from sharemesh.client.consumer.share_sessions import ShareSessionPool
from sharemesh.domain import ids
from sharemesh.domain.share_group import initialization
from sharemesh.domain.share_group.context import GroupUpdate
from sharemesh.domain.share_group.records import GroupMetadata
from sharemesh.domain.share_state import machine
from sharemesh.runtime.shard import CoordinatorShard
from sharemesh.share_leader.partition.share_partition_runner import SharePartitionRunner
from sharemesh.share_leader.requests.delayed_share_fetch import DelayedShareFetch
from tests.client import test_async_share_consumer
from tests.conformance import test_state_rpcs as share_coordinator
from tests.domain.share_group import test_heartbeat
from tests.domain.share_state import test_key_text
from tests.group_coordinator import test_offset_admin
from tests.runtime import test_shard
from tests.share_leader import test_fetch_lock

DEADLINE_S = 60


def a_lower_start_offset_wins(patch):
    """A write that carries a lower start offset takes it back."""
    patch.setattr(machine, "max", lambda asked, *_: asked, raising=False)


def waiters_are_told_under_the_lock(patch):
    """KAFKA-20505: who waits is told while the lock is held, and then by nobody."""

    def unlock(self, owner, *, wake=True):
        if self._fetch_lock is owner:
            if wake:
                self._wake()
            self._fetch_lock = None

    patch.setattr(SharePartitionRunner, "unlock", unlock)


def a_cancelled_fetch_keeps_the_lock(patch):
    """KAFKA-20505, the other way to stand still: a lock whose holder is gone."""
    patch.setattr(DelayedShareFetch, "_give_back", lambda self: None)


def a_key_is_cut_at_its_first_colon(patch):
    """KAFKA-20183: a group id with a colon in it gives another key."""

    def parse(text):
        group_id, _, rest = text.partition(":")
        topic_text, _, partition = rest.partition(":")
        topic_id = ids.parse_topic_id(topic_text)
        return ids.SharePartitionKey(group_id, topic_id, int(partition))

    patch.setattr(test_key_text, "parse_key", parse)


def jobs_outlive_their_shard(patch):
    """KAFKA-20710: periodic jobs of a coordinator that lost its shard go on."""
    real = CoordinatorShard._end

    def end(self, error):
        self._tasks, jobs = set(), self._tasks
        real(self, error)
        self._tasks = jobs

    patch.setattr(CoordinatorShard, "_end", end)


def a_lost_session_is_never_replaced(patch):
    """KAFKA-20736: the client believes that its session at a lost leader goes on."""
    patch.setattr(ShareSessionPool, "ended", lambda self, stream: True)


def added_partitions_start_at_the_end(patch):
    """KAFKA-20742: what was produced before the group heard of a new partition is never read."""
    patch.setattr(initialization, "NEW_PARTITION", initialization.NEVER_READ)


def a_reset_keeps_the_group_epoch(patch):
    """KAFKA-20910: offsets are reset under the epoch of before."""
    real = GroupUpdate.emit

    def emit(self, record):
        if isinstance(record, GroupMetadata) and self.group is not None and self.group.epoch:
            record = GroupMetadata(record.group_id, self.group.epoch, record.metadata_hash)
        real(self, record)

    patch.setattr(GroupUpdate, "emit", emit)


KEY = next(
    mark.args[1][0]
    for mark in test_key_text.test_the_group_is_what_is_left_when_parsed_from_the_right.pytestmark
)
CASES = [
    (a_lower_start_offset_wins, share_coordinator.test_the_start_offset_never_goes_back, ()),
    (
        waiters_are_told_under_the_lock,
        test_fetch_lock.test_a_fetch_that_found_the_lock_taken_goes_on_once_it_is_free,
        (),
    ),
    (
        a_cancelled_fetch_keeps_the_lock,
        test_fetch_lock.test_a_fetch_that_is_cancelled_when_it_gets_the_lock_gives_it_back,
        (),
    ),
    (
        a_key_is_cut_at_its_first_colon,
        test_key_text.test_the_group_is_what_is_left_when_parsed_from_the_right,
        KEY,
    ),
    (jobs_outlive_their_shard, test_shard.test_jobs_stop_when_the_epoch_ends_by_itself, ()),
    (
        a_lost_session_is_never_replaced,
        test_async_share_consumer.test_a_lost_connection_starts_a_new_session,
        (),
    ),
    (
        added_partitions_start_at_the_end,
        test_heartbeat.test_new_partitions_of_a_known_topic_start_at_zero,
        (),
    ),
    (
        a_reset_keeps_the_group_epoch,
        test_offset_admin.test_alter_sets_offsets_under_a_new_epoch,
        (),
    ),
]


async def run(test, values):
    result = test(*values)
    if inspect.isawaitable(result):
        async with asyncio.timeout(DEADLINE_S):
            await result


@pytest.mark.parametrize(
    ("plant", "test", "values"), CASES, ids=[plant.__name__ for plant, _, _ in CASES]
)
async def test_a_planted_bug_fails_its_test(plant, test, values, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(Exception) as seen:
        await run(test, values)
    assert not isinstance(seen.value, TypeError | NameError | AttributeError), seen.value


@pytest.mark.parametrize(("test", "values"), [case[1:] for case in CASES])
async def test_without_the_bug_the_same_test_passes(test, values):
    await run(test, values)
