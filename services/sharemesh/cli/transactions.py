"""``sharemesh transactions``: which ones are open, and their end (BND-12)."""

import argparse

from sharemesh.cli.command_parser import Commands
from sharemesh.cli.session import CommandError, CommandSession, actions_of, add_admin_action
from sharemesh.cli.topics import check_exist, where_of
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import TopicDescription, TopicPartition
from sharemesh.client.errors import SharemeshError

_EXAMPLES = """examples:
  sharemesh transactions list orders
  sharemesh transactions abort orders/0 --start-offset 1200

Groups with share.isolation.level = read_committed get nothing behind the first record of an open
transaction. One that has no end is aborted after 15 minutes; abort does it now."""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    actions = actions_of(
        commands.add_parser(
            "transactions", help="list and abort open transactions", epilog=_EXAMPLES
        )
    )
    listed = add_admin_action(actions, "list", _list, help="list open transactions")
    listed.add_argument("topics", nargs="+", metavar="TOPIC")
    abort = add_admin_action(actions, "abort", _abort, help="abort one, and fence its producer")
    abort.add_argument("where", metavar="TOPIC/PARTITION")
    abort.add_argument(
        "--start-offset", type=int, required=True, metavar="N", help="where it begins, as listed"
    )


def _list(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    check_exist(admin, *args.topics)
    described = admin.describe_topics(args.topics).values()
    partitions = [
        TopicPartition(topic.name, each.partition)
        for topic in described
        if isinstance(topic, TopicDescription)
        for each in topic.partitions
    ]
    failed = 0
    rows: list[dict[str, object]] = []
    for where, found in admin.list_transactions(partitions).items():
        if isinstance(found, SharemeshError):
            failed = 1
            session.complain_of(str(where), found, admin.list_topics)
            continue
        rows.extend(
            {
                "topic": where.topic,
                "partition": where.partition,
                "start_offset": each.start_offset,
                "producer_id": each.producer_id,
                "producer_epoch": each.producer_epoch,
                "open_ms": each.open_ms,
            }
            for each in found
        )
    if rows or not failed:
        columns = "topic, partition, start_offset, producer_id, producer_epoch, open_ms"
        session.show(rows, columns, empty="no transaction is open")
    return failed


def _abort(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    where = where_of(args.where)
    found = admin.list_transactions([where])[where]
    if isinstance(found, SharemeshError):
        raise found
    for each in found:
        if each.start_offset == args.start_offset:
            admin.abort_transaction(where, each)
            if session.as_json:
                session.show_json({"producer_id": each.producer_id, "aborted": True})
            session.say(f"transaction of producer {each.producer_id} in {where} aborted")
            return 0
    raise CommandError(
        f"no open transaction of {where} begins at offset {args.start_offset}; see: sharemesh "
        f"transactions list {where.topic}"
    )
