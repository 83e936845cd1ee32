"""``sharemesh topics``: create, list, describe, delete, attach, grow, delete records."""

import argparse

from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import counted, nearest
from sharemesh.cli.session import CommandError, CommandSession, actions_of, add_admin_action
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import NewTopic, TopicDescription, TopicPartition
from sharemesh.client.errors import (
    SharemeshError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from sharemesh.client.metadata.missing_topics import how_to_have
from sharemesh.domain.setting_values import is_written_whole

_EXAMPLES = """examples:
  sharemesh topics create orders --partitions 4
  sharemesh topics create audit --config retention.ms=86400000
  sharemesh topics list
  sharemesh topics describe orders --json
  sharemesh topics add-partitions orders --total 8
  sharemesh topics delete-records orders/0 --before 1000
  sharemesh topics delete orders
  sharemesh topics attach orders
  sharemesh topics detach orders"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    actions = actions_of(
        commands.add_parser(
            "topics", help="create, list, describe and delete topics", epilog=_EXAMPLES
        )
    )
    create = add_admin_action(actions, "create", _create, help="create topics")
    create.add_argument("topics", nargs="+", metavar="TOPIC")
    create.add_argument("--partitions", type=int, default=1, help="how many (default: 1)")
    create.add_argument(
        "--config", action="append", default=[], metavar="NAME=VALUE", help="config of the topic"
    )
    create.add_argument("--if-not-exists", action="store_true", help="an existing one is fine")

    add_admin_action(actions, "list", _list, help="list topic names")

    describe = add_admin_action(actions, "describe", _describe, help="partitions and leaders")
    describe.add_argument("topics", nargs="*", metavar="TOPIC", help="none: all")

    delete = add_admin_action(actions, "delete", _delete, help="delete topics and records")
    delete.add_argument("topics", nargs="+", metavar="TOPIC")

    attach = add_admin_action(
        actions, "attach", _attach, help="serve topics of the Kafka cluster that keeps the records"
    )
    attach.add_argument("topics", nargs="+", metavar="TOPIC")

    detach = add_admin_action(
        actions, "detach", _detach, help="serve them no more; nothing is deleted in Kafka"
    )
    detach.add_argument("topics", nargs="+", metavar="TOPIC")

    more = add_admin_action(actions, "add-partitions", _add_partitions, help="add partitions")
    more.add_argument("topic", metavar="TOPIC")
    more.add_argument("--total", type=int, required=True, help="partitions afterwards")

    records = add_admin_action(
        actions, "delete-records", _delete_records, help="delete old records"
    )
    records.add_argument("where", metavar="TOPIC/PARTITION")
    records.add_argument("--before", type=int, required=True, help="first offset kept; -1: none")


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
    if not mark or not topic or not is_written_whole(partition):
        raise CommandError(f"{text!r}: expected TOPIC/PARTITION, for example orders/0", code=2)
    return TopicPartition(topic, int(partition))


def check_exist(admin: AdminClient, *topics: str) -> None:
    """Check that topics exist.

    Raises:
        CommandError: One does not; the message names the nearest one and how to create it.
    """
    known = admin.list_topics()
    for topic in topics:
        if topic not in known:
            raise CommandError(
                f"topic {topic!r} does not exist{nearest(topic, known)}; {how_to_have(topic)}"
            )


def _create(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    configs = pairs(args.config, "--config")
    problems = admin.create_topics(
        [NewTopic(name, args.partitions, configs) for name in args.topics]
    )
    if args.if_not_exists:
        problems = {
            name: None if isinstance(error, TopicAlreadyExistsError) else error
            for name, error in problems.items()
        }
    done = f"topic {{}} created with {counted(args.partitions, 'partition')}"
    return session.report(problems, done, admin.list_topics)


def _list(session: CommandSession, admin: AdminClient, _: argparse.Namespace) -> int:
    names = admin.list_topics()
    if session.as_json:
        session.show_json(names)
    for name in names:
        session.say(name)
    return 0


def _describe(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    failed = 0
    rows: list[dict[str, object]] = []
    for name, topic in admin.describe_topics(args.topics or None).items():
        if not isinstance(topic, TopicDescription):
            failed = 1
            session.complain_of(name, topic, admin.list_topics)
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
    if rows or not failed:
        columns = "topic, partition, leader, leader_epoch, standbys"
        session.show(rows, columns, empty="there are no topics")
    return failed


def _delete(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    return session.report(admin.delete_topics(args.topics), "topic {} deleted", admin.list_topics)


def _attach(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    return session.report(admin.attach_topics(args.topics), "topic {} attached", admin.list_topics)


def _detach(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    return session.report(admin.detach_topics(args.topics), "topic {} detached", admin.list_topics)


def _add_partitions(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    problem: SharemeshError | None = None
    try:
        admin.add_partitions(args.topic, args.total)
    except UnknownTopicOrPartitionError as error:
        problem = error
    done = f"topic {{}} has {counted(args.total, 'partition')}"
    return session.report({args.topic: problem}, done, admin.list_topics)


def _delete_records(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    where = where_of(args.where)
    result = admin.delete_records({where: args.before})[where]
    if isinstance(result, SharemeshError):
        raise result
    if session.as_json:
        session.show_json({"topic": where.topic, "partition": where.partition, "start": result})
    session.say(f"{where} starts at offset {result}")
    return 0
