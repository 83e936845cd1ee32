"""``sharemesh cluster`` and ``sharemesh explain``: who runs, and why a record is not delivered."""

import argparse
from typing import Any

from sharemesh.cli.failures import CommandError
from sharemesh.cli.session import connection_flags, session_of
from sharemesh.cli.topics import where_of
from sharemesh.client import AdminClient


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the commands to the command line."""
    cluster = subparsers.add_parser(
        "cluster",
        parents=[connection_flags()],
        help="show processes, coordinator shards and partitions without a leader",
        epilog="examples:\n  sharemesh cluster\n  sharemesh cluster --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cluster.set_defaults(run=_cluster)
    explain = subparsers.add_parser(
        "explain",
        parents=[connection_flags()],
        help="tell why a record is, or is not, being delivered to a group",
        epilog="examples:\n  sharemesh explain orders/0@42 --group billing",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explain.add_argument("where", metavar="TOPIC/PARTITION@OFFSET")
    explain.add_argument("--group", required=True, metavar="G")
    explain.set_defaults(run=_explain)


def _cluster(args: argparse.Namespace) -> int:
    session = session_of(args)
    with AdminClient(session.admin_settings) as admin:
        found = admin.describe_cluster()
    nodes = [
        {
            "node": each.node_id,
            "role": each.role,
            "address": each.address,
            "pid": each.pid or None,
            "partitions": each.led_partitions,
            "state": "draining" if each.draining else "running",
            "version": each.version,
        }
        for each in found.nodes
    ]
    shards = [
        {"shard": each.election, "leader": each.leader_id, "epoch": each.epoch}
        for each in found.shards
    ]
    unassigned = [{"partition": str(where), "reason": reason} for where, reason in found.unassigned]
    if session.as_json:
        session.show_json(
            {
                "cluster": found.cluster_id,
                "controller": found.controller_id,
                "nodes": nodes,
                "shards": shards,
                "unassigned": unassigned,
            }
        )
        return 0
    session.say(f"cluster {found.cluster_id}, controller {found.controller_id or '-'}")
    columns = {
        "node": "NODE",
        "role": "ROLE",
        "address": "ADDRESS",
        "pid": "PID",
        "partitions": "PARTITIONS",
        "state": "STATE",
        "version": "VERSION",
    }
    session.show(nodes, columns, empty="no process is known")
    session.show(
        shards,
        {"shard": "SHARD", "leader": "LEADER", "epoch": "EPOCH"},
        empty="no coordinator shard has a leader",
    )
    if unassigned:
        session.show(unassigned, {"partition": "WITHOUT LEADER", "reason": "REASON"}, empty="")
    return 0


def _explain(args: argparse.Namespace) -> int:
    session = session_of(args)
    place, mark, offset = args.where.rpartition("@")
    if not mark or not offset.isdigit():
        raise CommandError(
            f"{args.where!r}: expected TOPIC/PARTITION@OFFSET, for example orders/0@42", code=2
        )
    where = where_of(place)
    with AdminClient(session.admin_settings) as admin:
        found = admin.explain(args.group, where.topic, where.partition, int(offset))
    facts = {name: getattr(found, name) for name in type(found).__dataclass_fields__}
    if session.as_json:
        session.show_json({"topic": where.topic, "partition": where.partition, **facts})
        return 0
    session.say(f"{args.where} for group {args.group}: {found.delivery_state} ({found.reason})")
    session.say(found.explanation)
    rows = [
        {"fact": name.replace("_", " "), "value": value}
        for name, value in facts.items()
        if name not in ("explanation", "reason", "delivery_state")
    ]
    session.show(rows, {"fact": "FACT", "value": "VALUE"}, empty="")
    return 0
