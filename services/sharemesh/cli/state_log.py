"""``sharemesh state-log``: dump and verify the share state log, import from an old one."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sharemesh.cli import state_import
from sharemesh.cli.formatting import counted
from sharemesh.cli.log_files import OpenedLog, open_log
from sharemesh.cli.session import DEFAULT_DATA_DIRECTORY, CommandError, connection_before
from sharemesh.codec.log_layout import (
    CLUSTER_FILE,
    STATE,
    ClusterFile,
    DataDirectoryError,
    decode_cluster_file,
    shard_log_path,
)
from sharemesh.codec.log_read import LogBytesError
from sharemesh.codec.state_record import UnreadableRecordError, decode_record
from sharemesh.domain.share_state.records import KIND_NAMES, StateSnapshot, StateUpdate
from sharemesh.domain.state_batch import StateBatch

_EXAMPLES = """examples:
  sharemesh state-log dump sharemesh-data --group billing
  sharemesh state-log verify sharemesh-data --json"""


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "state-log",
        help="read the share state log of a data directory, import from an old design's",
        description="dump and verify read files only; the cluster may run meanwhile or not.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    connection_before(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
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
    state_import.register(actions)


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
    where = getattr(record, "key", None)
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
        facts |= {
            "snapshot_epoch": record.snapshot_epoch,
            "state_epoch": record.state_epoch,
            "leader_epoch": record.leader_epoch,
            "start_offset": record.start_offset,
            "delivery_complete_count": record.delivery_complete_count,
            "cause": record.origin.cause.name.lower(),
            "member": record.origin.member_id,
            "batches": [_batch_text(each) for each in record.batches],
        }
    if args.json:
        print(json.dumps(facts, default=str))
    else:
        print(" ".join(f"{name}={_text(value)}" for name, value in facts.items()))


def _batch_text(batch: StateBatch) -> str:
    return (
        f"{batch.first_offset}-{batch.last_offset}:{batch.delivery_state.name.lower()}"
        f"({batch.delivery_count})"
    )


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(each) for each in value) or "-"
    return str(value) if value != "" else "-"


def _verify(args: argparse.Namespace) -> int:
    reports = [_check(shard, log) for shard, log in _logs(args)]
    failed = [report for report in reports if report["problem"]]
    if args.json:
        print(json.dumps({"shards": reports, "ok": not failed}))
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
        "start": log.log_start_offset,
        "end": log.end.end_offset,
        "problem": problem,
    }
