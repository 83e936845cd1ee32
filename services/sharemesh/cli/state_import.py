"""``sharemesh state-log import``: delivery states out of a log of the old design (spec OLD)."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sharemesh.cli.session import CommandError, CommandSession, connection_flags, session_of
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.errors import SharemeshError
from sharemesh.codec.old_control_record import read_old_records
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.fold import ShareState
from sharemesh.domain.share_state.old_control_records import (
    OldRecord,
    OldRecordsError,
    import_state,
)

_ANY_TOPIC = TopicId(bytes(16))  # the old records lie in their partition and name no topic
_EPILOG = """The files are segments of the partition of a Kafka-like log whose share groups kept
their state as control records (SHARE_CHECKPOINT, SHARE_DELTA) between the data. The topic must
exist here and hold the same records at the same offsets. Its groups must have no members. A group
that stands somewhere in the partition already is left as it is, so the command can be repeated
when some groups failed; sharemesh groups delete-offsets makes room for another import.

example:
  sharemesh state-log import old/orders-0/*.log --topic orders --partition 0 --execute"""


def register(actions: "argparse._SubParsersAction[Any]") -> None:
    """Add the action to ``state-log``."""
    parser = actions.add_parser(
        "import",
        parents=[connection_flags()],
        help="take over groups' delivery states from a log of the old design",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="SEGMENT", help="all segments, in any order")
    parser.add_argument("--topic", required=True, metavar="T", help="the topic here")
    parser.add_argument("--partition", required=True, type=int, metavar="N")
    parser.add_argument("--group", action="append", metavar="G", help="only this one; repeatable")
    parser.add_argument("--execute", action="store_true", help="do it (default: only show)")
    parser.set_defaults(run=_import)


def _import(args: argparse.Namespace) -> int:
    session = session_of(args)
    where = TopicPartition(args.topic, args.partition)
    states = _states(_records(args.files), args.group)
    problems: dict[str, str] = {}
    imported: list[str] = []
    if args.execute:
        with AdminClient(session.admin_settings) as admin:
            for group_id, state in states.items():
                try:
                    if _imported(admin, group_id, where, state):
                        imported.append(group_id)
                    else:
                        session.say(f"group {group_id} stands in {where} already: left as it is")
                except SharemeshError as error:
                    problems[group_id] = str(error)
    _show(session, where, states, imported, problems)
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


def _show(
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
    columns = {
        "group": "GROUP",
        "topic": "TOPIC",
        "partition": "PARTITION",
        "start_offset": "START-OFFSET",
        "delivery_complete": "DELIVERY-COMPLETE",
        "batches": "BATCHES",
        "imported": "IMPORTED",
    }
    if problems:
        columns["error"] = "ERROR"
    session.show(rows, columns, empty="")
