"""``sharemesh topics``: create, list, describe, delete, add partitions, delete records."""

import argparse
from typing import Any

from sharemesh.cli.formatting import counted, nearest
from sharemesh.cli.session import (
    CommandError,
    CommandSession,
    connection_before,
    connection_flags,
    session_of,
)
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import NewTopic, TopicDescription, TopicPartition
from sharemesh.client.errors import SharemeshError, UnknownTopicOrPartitionError

_EXAMPLES = """examples:
  sharemesh topics create orders --partitions 4
  sharemesh topics create audit --config retention.ms=86400000
  sharemesh topics list
  sharemesh topics describe orders --json
  sharemesh topics add-partitions orders --total 8
  sharemesh topics delete-records orders/0 --before 1000
  sharemesh topics delete orders"""


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "topics",
        help="create, list, describe and delete topics",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    connection_before(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    common = connection_flags()

    create = actions.add_parser("create", parents=[common], help="create topics")
    create.add_argument("topics", nargs="+", metavar="TOPIC")
    create.add_argument("--partitions", type=int, default=1, help="how many (default: 1)")
    create.add_argument(
        "--config", action="append", default=[], metavar="NAME=VALUE", help="config of the topic"
    )
    create.add_argument("--if-not-exists", action="store_true", help="an existing one is fine")
    create.set_defaults(run=_create)

    listing = actions.add_parser("list", parents=[common], help="list topic names")
    listing.set_defaults(run=_list)

    describe = actions.add_parser("describe", parents=[common], help="partitions and leaders")
    describe.add_argument("topics", nargs="*", metavar="TOPIC", help="none: all")
    describe.set_defaults(run=_describe)

    delete = actions.add_parser("delete", parents=[common], help="delete topics and records")
    delete.add_argument("topics", nargs="+", metavar="TOPIC")
    delete.set_defaults(run=_delete)

    more = actions.add_parser("add-partitions", parents=[common], help="add partitions")
    more.add_argument("topics", nargs=1, metavar="TOPIC")
    more.add_argument("--total", type=int, required=True, help="partitions afterwards")
    more.set_defaults(run=_add_partitions)

    records = actions.add_parser("delete-records", parents=[common], help="delete old records")
    records.add_argument("where", metavar="TOPIC/PARTITION")
    records.add_argument("--before", type=int, required=True, help="first offset kept; -1: none")
    records.set_defaults(run=_delete_records)


def pairs(given: list[str], flag: str) -> dict[str, str]:
    """Return NAME=VALUE arguments as a mapping.

    Raises:
        CommandError: One has no ``=``.
    """
    found: dict[str, str] = {}
    for each in given:
        name, mark, value = each.partition("=")
        if not mark or not name:
            raise CommandError(f"{flag} {each!r}: expected NAME=VALUE", code=2)
        found[name] = value
    return found


def where_of(text: str) -> TopicPartition:
    """Return the topic and partition of ``TOPIC/PARTITION``.

    Raises:
        CommandError: It has another form.
    """
    topic, mark, partition = text.rpartition("/")
    if not mark or not topic or not partition.isdigit():
        raise CommandError(f"{text!r}: expected TOPIC/PARTITION, for example orders/0", code=2)
    return TopicPartition(topic, int(partition))


def _create(args: argparse.Namespace) -> int:
    session = session_of(args)
    configs = pairs(args.config, "--config")
    with AdminClient(session.admin_settings) as admin:
        problems = admin.create_topics(
            [NewTopic(name, args.partitions, configs) for name in args.topics]
        )
    if args.if_not_exists:
        problems = {
            name: None if getattr(error, "code", None) == 36 else error
            for name, error in problems.items()
        }
    return _report(session, problems, f"created with {counted(args.partitions, 'partition')}")


def _list(args: argparse.Namespace) -> int:
    session = session_of(args)
    with AdminClient(session.admin_settings) as admin:
        names = admin.list_topics()
    if session.as_json:
        session.show_json(names)
    else:
        for name in names:
            session.say(name)
    return 0


def _describe(args: argparse.Namespace) -> int:
    session = session_of(args)
    with AdminClient(session.admin_settings) as admin:
        found = admin.describe_topics(args.topics or None)
        known = admin.list_topics()
    failed = 0
    rows: list[dict[str, object]] = []
    for name, topic in found.items():
        if not isinstance(topic, TopicDescription):
            failed = 1
            session.complain(f"{topic}{nearest(name, known)}")
            continue
        rows.extend(
            {
                "topic": topic.name,
                "topic_id": topic.topic_id,
                "partition": each.partition,
                "leader": each.leader_id,
                "leader_epoch": each.leader_epoch,
                "standbys": list(each.standbys),
                "configs": dict(topic.configs),
            }
            for each in topic.partitions
        )
    columns = {
        "topic": "TOPIC",
        "partition": "PARTITION",
        "leader": "LEADER",
        "leader_epoch": "LEADER-EPOCH",
        "standbys": "STANDBYS",
    }
    if rows or not failed:
        session.show(rows, columns, empty="there are no topics")
    return failed


def _delete(args: argparse.Namespace) -> int:
    session = session_of(args)
    with AdminClient(session.admin_settings) as admin:
        problems = admin.delete_topics(args.topics)
        known = admin.list_topics()
    return _report(session, problems, "deleted", known)


def _add_partitions(args: argparse.Namespace) -> int:
    session = session_of(args)
    (name,) = args.topics
    problem: SharemeshError | None = None
    with AdminClient(session.admin_settings) as admin:
        try:
            admin.add_partitions(name, args.total)
        except UnknownTopicOrPartitionError as error:
            problem = error
        known = admin.list_topics()
    return _report(session, {name: problem}, f"has {counted(args.total, 'partition')}", known)


def _delete_records(args: argparse.Namespace) -> int:
    session = session_of(args)
    where = where_of(args.where)
    with AdminClient(session.admin_settings) as admin:
        result = admin.delete_records({where: args.before})[where]
    if isinstance(result, SharemeshError):
        raise result
    if session.as_json:
        session.show_json({"topic": where.topic, "partition": where.partition, "start": result})
    session.say(f"{where} starts at offset {result}")
    return 0


def _report(
    session: CommandSession,
    problems: dict[str, SharemeshError | None],
    done: str,
    known: list[str] | None = None,
) -> int:
    if session.as_json:
        session.show_json({name: None if e is None else str(e) for name, e in problems.items()})
    for name, error in problems.items():
        if error is None:
            session.say(f"topic {name} {done}")
        else:
            hint = nearest(name, [each for each in known or () if each != name])
            session.complain(f"sharemesh: {error}{hint}")
    return int(any(error is not None for error in problems.values()))
