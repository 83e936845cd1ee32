"""The group coordinator's shards on the runtime: machine, records, bytes."""

import logging

from sharemesh.codec.group_record import Moment, read_record, record_key, record_value
from sharemesh.domain.share_group.records import GroupLogRecord
from sharemesh.domain.share_group.shard import GroupShard
from sharemesh.ports.clock import Clock
from sharemesh.ports.shard_log import LogRecord
from sharemesh.runtime.shard_kind import ShardDefinition, replaying

LOG_NAME = "group"
_log = logging.getLogger("sharemesh.group_coordinator")


def group_shard_kind(clock: Clock) -> ShardDefinition[GroupShard, GroupLogRecord]:
    """Return what the runtime needs to know of group shards."""

    def encode(record: GroupLogRecord) -> LogRecord:
        moment = Moment(clock.now_ms(), clock.wall_ms())
        value = record_value(record, moment)
        return LogRecord(record_key(record), value, timestamp_ms=moment.wall_ms)

    def decode(stored: LogRecord) -> GroupLogRecord | None:
        moment = Moment(clock.now_ms(), clock.wall_ms())
        record = read_record(stored.key, stored.value, moment)
        if record is None:
            _log.warning("group log offset %d: a record of a later version", stored.offset)
        return record

    return ShardDefinition(
        name=LOG_NAME,
        new_machine=lambda _: GroupShard(),
        encode=encode,
        load=replaying(decode),
    )
