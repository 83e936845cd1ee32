"""``sharemesh state-log``: dump and verify the share state log; import an older one (spec OLD)."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import cell, counted, json_line
from sharemesh.cli.log_files import OpenedLog, open_log
from sharemesh.cli.session import (
    DEFAULT_DATA_DIRECTORY,
    CommandError,
    CommandSession,
    actions_of,
    add_admin_action,
)
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.errors import SharemeshError
from sharemesh.codec.log_chain import LogBytesError
from sharemesh.codec.log_layout import (
    CLUSTER_FILE,
    STATE,
    ClusterFile,
    DataDirectoryError,
    decode_cluster_file,
    shard_log_path,
)
from sharemesh.codec.old_control_record import read_old_records
from sharemesh.codec.state_record import UnreadableRecordError, decode_record
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.fold import ShareState
from sharemesh.domain.share_state.old_control_records import (
    OldRecord,
    OldRecordsError,
    import_state,
)
from sharemesh.domain.share_state.records import (
    KIND_NAMES,
    SnapshotPart,
    StateSnapshot,
    StateUpdate,
)
from sharemesh.domain.state_batch import StateBatch

_EXAMPLES = """examples:
  sharemesh state-log dump sharemesh-data --group billing
  sharemesh state-log verify sharemesh-data --json"""
_NUMBERS = [
    "snapshot_epoch",
    "state_epoch",
    "leader_epoch",
    "start_offset",
    "delivery_complete_count",
]
_ANY_TOPIC = TopicId(bytes(16))  # the old records lie in their partition and name no topic
_IMPORT = """The files are segments of the partition of a Kafka-like log whose share groups kept
their state as control records (SHARE_CHECKPOINT, SHARE_DELTA) between the data. The topic must
exist here and hold the same records at the same offsets. Its groups must have no members. A group
that stands somewhere in the partition already is left as it is, so the command can be repeated
when some groups failed; sharemesh groups delete-offsets makes room for another import.

example:
  sharemesh state-log import old/orders-0/*.log --topic orders --partition 0 --execute"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    actions = actions_of(
        commands.add_parser(
            "state-log",
            help="read the share state log of a data directory, import from an old design's",
            description="dump and verify read files only; the cluster may run meanwhile or not.",
            epilog=_EXAMPLES,
        )
    )
    for name, text, run in (
        ("dump", "print every record", _dump),
        ("verify", "check checksums, offsets and that every record can be read", _verify),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "data", metavar="DATA-DIRECTORY", nargs="?", default=DEFAULT_DATA_DIRECTORY
        )
        action.add_argument("--shard", type=int, metavar="N", help="only this shard")
        action.add_argument("--json", action="store_true", help="print JSON for programs")
        if name == "dump":
            action.add_argument("--group", metavar="G", help="only this group")
        action.set_defaults(run=run)
    taken = add_admin_action(
        actions,
        "import",
        _import,
        help="take over groups' delivery states from a log of the old design",
        epilog=_IMPORT,
    )
    taken.add_argument("files", nargs="+", metavar="SEGMENT", help="all segments, in any order")
    taken.add_argument("--topic", required=True, metavar="T", help="the topic here")
    taken.add_argument("--partition", required=True, type=int, metavar="N")
    taken.add_argument("--group", action="append", metavar="G", help="only this one; repeatable")
    taken.add_argument("--execute", action="store_true", help="do it (default: only show)")


def _logs(args: argparse.Namespace) -> Iterator[tuple[int, OpenedLog]]:
    root = Path(args.data)
    cluster = _cluster_file(root)
    shards = range(cluster.state_shards) if args.shard is None else [args.shard]
    for shard in shards:
        if not 0 <= shard < cluster.state_shards:
            raise CommandError(f"--shard {shard}: there are shards 0 to {cluster.state_shards - 1}")
        directory = root / shard_log_path(STATE, shard)
        log = open_log(directory) if directory.is_dir() else None
        if log is not None:
            yield shard, log


def _cluster_file(root: Path) -> ClusterFile:
    try:
        return decode_cluster_file((root / CLUSTER_FILE).read_bytes())
    except OSError as error:
        raise CommandError(
            f"{root} is no data directory of a cluster: cannot read {CLUSTER_FILE} "
            f"({error.strerror}); give the directory that 'sharemesh up' was given"
        ) from error
    except DataDirectoryError as error:
        raise CommandError(f"{root}: {error}") from error


def _dump(args: argparse.Namespace) -> int:
    for shard, log in _logs(args):
        try:
            for batch in log.records():
                for key, value, offset, timestamp_ms in batch:
                    _print(args, shard, offset, timestamp_ms, key, value)
        except LogBytesError as error:
            raise CommandError(f"shard {shard}: corrupt: {error}") from error
    return 0


def _print(
    args: argparse.Namespace,
    shard: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
) -> None:
    try:
        record = decode_record(key or b"", value)
    except UnreadableRecordError as error:
        raise CommandError(f"shard {shard}, offset {offset}: {error}") from error
    where = (
        record.snapshot.key if isinstance(record, SnapshotPart) else getattr(record, "key", None)
    )
    if args.group and (where is None or where.group_id != args.group):
        return
    facts: dict[str, Any] = {
        "shard": shard,
        "offset": offset,
        "timestamp": timestamp_ms,
        "kind": KIND_NAMES.get(type(record), "unknown"),
    }
    if where is not None:
        facts |= {
            "group": where.group_id,
            "topic_id": where.topic_id.hex(),
            "partition": where.partition,
        }
    if isinstance(record, StateSnapshot | StateUpdate):
        facts |= {name: getattr(record, name) for name in _NUMBERS}
        facts |= {
            "cause": record.origin.cause.name.lower(),
            "member": record.origin.member_id,
            "batches": [_batch_text(each) for each in record.batches],
        }
    if isinstance(record, SnapshotPart):
        facts |= {"part": record.part, "parts": record.parts}
        facts |= {name: getattr(record.snapshot, name) for name in _NUMBERS}
        facts["batches"] = [_batch_text(each) for each in record.batches]
    if args.json:
        print(json_line(facts))
    else:
        print(" ".join(f"{name}={cell(value)}" for name, value in facts.items()))


def _batch_text(batch: StateBatch) -> str:
    return (
        f"{batch.first_offset}-{batch.last_offset}:{batch.delivery_state.name.lower()}"
        f"({batch.delivery_count})" + (f"@{batch.acquired_at_ms}" if batch.acquired_at_ms else "")
    )


def _verify(args: argparse.Namespace) -> int:
    reports = [_check(shard, log) for shard, log in _logs(args)]
    failed = [report for report in reports if report["problem"]]
    if args.json:
        print(json_line({"shards": reports, "ok": not failed}))
    else:
        for report in reports:
            print(
                f"shard {report['shard']}: {counted(report['records'], 'record')} in "
                f"{counted(report['segments'], 'segment')}, offsets {report['start']} to "
                f"{report['end'] - 1}: {report['problem'] or 'good'}"
            )
        if not reports:
            print("no shard holds a record yet")
    return int(bool(failed))


def _check(shard: int, log: OpenedLog) -> dict[str, Any]:
    count = 0
    problem = ""
    try:
        for batch in log.records():
            for key, value, offset, _ in batch:
                count += 1
                try:
                    decode_record(key or b"", value)
                except UnreadableRecordError as error:
                    problem = problem or f"offset {offset}: {error}"
    except LogBytesError as error:
        problem = f"corrupt: {error}"
    return {
        "shard": shard,
        "records": count,
        "segments": len(log.chain.links),
        "start": log.start_offset,
        "end": log.end.end_offset,
        "problem": problem,
    }


def _import(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    where = TopicPartition(args.topic, args.partition)
    states = _states(_records(args.files), args.group)
    problems: dict[str, str] = {}
    imported: list[str] = []
    for group_id, state in states.items() if args.execute else ():
        try:
            if _imported(admin, group_id, where, state):
                imported.append(group_id)
            else:
                session.say(f"group {group_id} stands in {where} already: left as it is")
        except SharemeshError as error:
            problems[group_id] = str(error)
    _show_import(session, where, states, imported, problems)
    if not args.execute:
        session.say("nothing was changed: add --execute")
    return int(bool(problems))


def _imported(admin: AdminClient, group_id: str, where: TopicPartition, state: ShareState) -> bool:
    """Import unless the group has started there: by an earlier import, or work of its own."""
    found = admin.list_share_group_offsets(group_id, [where.topic]).get(where)
    if isinstance(found, SharemeshError):
        raise found
    if found is None:
        admin.import_delivery_states(
            group_id, where, start_offset=state.start_offset, batches=state.batches
        )
    return found is None


def _records(files: Sequence[str]) -> list[OldRecord]:
    records: list[OldRecord] = []
    for name in files:
        try:
            records.extend(read_old_records(Path(name).read_bytes(), name))
        except OSError as error:
            raise CommandError(f"cannot read {name}: {error.strerror}") from error
        except OldRecordsError as error:
            raise CommandError(f"corrupt: {error}") from error
    return records


def _states(records: Sequence[OldRecord], wanted: Sequence[str] | None) -> dict[str, ShareState]:
    found = {record.group_id for record in records}
    groups = sorted(found if wanted is None else map(GroupId, wanted))
    if not groups:
        raise CommandError("the segments hold no share control records: nothing to import")
    keys = {group_id: SharePartitionKey(group_id, _ANY_TOPIC, 0) for group_id in groups}
    try:  # the share coordinator gives the times
        return {
            group_id: import_state(key, records, timestamp_ms=0) for group_id, key in keys.items()
        }
    except OldRecordsError as error:
        raise CommandError(str(error)) from error


def _show_import(
    session: CommandSession,
    where: TopicPartition,
    states: dict[str, ShareState],
    imported: Sequence[str],
    problems: dict[str, str],
) -> None:
    rows = [
        {
            "group": group_id,
            "topic": where.topic,
            "partition": where.partition,
            "start_offset": state.start_offset,
            "delivery_complete": state.delivery_complete_count,
            "batches": len(state.batches),
            "imported": group_id in imported,
            "error": problems.get(group_id),
        }
        for group_id, state in states.items()
    ]
    columns = "group, topic, partition, start_offset, delivery_complete, batches, imported"
    if problems:
        columns += ", error"
    session.show(rows, columns, empty="")
