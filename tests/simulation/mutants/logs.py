"""Bugs of logs and of who owns them."""

import asyncio
from dataclasses import replace

from sharemesh.backends.embedded.owned import take_over
from sharemesh.backends.embedded.owned.fences import Fences
from sharemesh.backends.embedded.owned.owned_log import OwnedLog
from sharemesh.backends.embedded.records.producers import Producers
from sharemesh.cluster.claims.claim_store import ClaimStore
from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.log_chain import readable_parts
from sharemesh.domain.errors import ErrorCode
from sharemesh.group_coordinator.member_stream import MemberStream
from sharemesh.persister.persister import Persister
from sharemesh.ports.share_state import StateWriteResult
from sharemesh.runtime.shard import CoordinatorShard
from sharemesh.serve.storage import embedded
from sharemesh_spark.reader import data_directory
from tests.simulation.patching import Patches

PLANTED = "planted: a task that nobody looks at"
"""The error of a mutant that does nothing but fail."""


def lost_fsync(patch: Patches) -> None:
    """Confirmed, but never synced: a power cut takes it."""
    real = embedded.log_settings
    patch.setattr(embedded, "log_settings", lambda settings: replace(real(settings), fsync=False))


def nobody_looks_for_fences(patch: Patches) -> None:
    """A deposed owner goes on writing."""
    patch.setattr(Fences, "look", lambda _fences: None)


def fences_are_looked_for_before_the_sync_only(patch: Patches) -> None:
    """What falls between the look and the confirmation is not seen."""
    real_commit, real_look = OwnedLog.commit, OwnedLog.look
    blind: set[int] = set()

    def commit(log, data, end_offset, log_start_offset):
        real_look(log)
        blind.add(id(log))
        try:
            return real_commit(log, data, end_offset, log_start_offset)
        finally:
            blind.discard(id(log))

    patch.setattr(OwnedLog, "commit", commit)
    patch.setattr(OwnedLog, "look", lambda log: None if id(log) in blind else real_look(log))


def acknowledged_before_durable(patch: Patches) -> None:
    """An acknowledgement is answered while its write is still under way."""
    real = Persister.write_state

    async def write_state(persister, key, write):
        task = asyncio.ensure_future(real(persister, key, write))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return StateWriteResult(ErrorCode.NONE)

    patch.setattr(Persister, "write_state", write_state)


def producers_are_forgotten(patch: Patches) -> None:
    """A batch that is sent again after a time-out is appended again."""
    patch.setattr(Producers, "check", lambda _producers, frames: [None] * len(frames))


def predecessor_is_truncated(patch: Patches) -> None:
    """Who takes a log over drops what lies behind the end that it finds published."""
    real = take_over.read_tail

    def read_tail(*arguments, **words):
        tail = real(*arguments, **words)
        return replace(tail, end_offset=tail.base_offset, data=bytearray())

    patch.setattr(take_over, "read_tail", read_tail)


def a_taken_log_begins_at_its_segment(patch: Patches) -> None:
    """Who takes a log over forgets that older segments belong to it."""
    real = take_over.read_tail

    def read_tail(disk, path, *arguments, **words):
        tail = real(disk, path, *arguments, **words)
        if not path.startswith("records/"):
            return tail
        return replace(tail, log_start_offset=max(tail.log_start_offset, tail.base_offset))

    patch.setattr(take_over, "read_tail", read_tail)


def readers_pass_the_committed_end(patch: Patches) -> None:
    """A reader beside the writer takes whole batches for committed ones."""
    real = data_directory._readable

    def readable(folder):
        log = real(folder)
        if log is None:
            return None
        end = log.end
        data = (folder / end.segment.file_name).read_bytes()
        walk = walk_frames(
            data[end.end_position :],
            start=end.end_position,
            limit=len(data),
            base_offset=end.end_offset,
            leader_epoch=end.epoch,
            check_crc=True,
        )
        end = replace(end, end_offset=walk.end_offset, end_position=walk.position)
        return replace(log, end=end, parts=readable_parts(log.chain, end))

    patch.setattr(data_directory, "_readable", readable)


def jobs_outlive_their_shard(patch: Patches) -> None:
    """KAFKA-20710: neither the end of its epoch nor its being given up ends a shard's jobs."""
    real = CoordinatorShard.start_job

    def start_job(shard, name, job, **words):
        known, shard._tasks = shard._tasks, set()
        real(shard, name, job, **words)
        shard._tasks = known

    patch.setattr(CoordinatorShard, "start_job", start_job)


def a_claim_of_unknown_outcome_is_left(patch: Patches) -> None:
    """A claim that a call left whose answer was lost is taken for somebody else's."""
    real = ClaimStore.take

    async def take(store, session):
        standing = store._policy.claim(store._partition)
        if standing is not None and standing.lease_id == session.lease_id:
            return None
        return await real(store, session)

    patch.setattr(ClaimStore, "take", take)


def a_stream_ends_unheard(patch: Patches) -> None:
    """A background task fails when its work is done, and nobody looks at it."""
    real = MemberStream.close

    async def close(stream):
        await real(stream)
        raise KeyError(PLANTED)

    patch.setattr(MemberStream, "close", close)
