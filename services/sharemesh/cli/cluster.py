"""``sharemesh cluster``: who runs, and who leads what."""

import argparse
from threading import Event
from typing import Any

from sharemesh.backends.local.clock import SystemClock
from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import counted
from sharemesh.cli.interrupts import INTERRUPTED
from sharemesh.cli.session import CommandError, CommandSession, add_admin_action
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import ClusterDescription

DRAIN_POLL_S = 0.2


def register(commands: Commands) -> None:
    """Add the commands to the command line."""
    cluster = add_admin_action(
        commands,
        "cluster",
        _cluster,
        help="show processes, coordinator shards, moves, and why something has no leader",
        epilog="examples:\n  sharemesh cluster\n  sharemesh cluster --partitions --json",
    )
    cluster.add_argument(
        "--partitions",
        action="store_true",
        help="every partition too: its leader, leader epoch and standbys",
    )
    drain = add_admin_action(
        cluster.commands(metavar="ACTION"),
        "drain",
        _drain,
        help="let a process hand over all it leads, before it is restarted or removed",
        epilog="examples:\n  sharemesh cluster drain share-leader-1",
    )
    drain.add_argument("node", metavar="NODE", help="as `sharemesh cluster` names it")
    drain.add_argument(
        "--wait", type=int, default=60, metavar="S", help="seconds until it must lead nothing"
    )


def _drain(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    """Return 0 once the node leads nothing; 1 if it still does after ``--wait`` seconds."""
    try:
        left = _drained(admin, args.node, args.wait)
    except KeyboardInterrupt:
        raise CommandError(
            f"node {args.node} continues to hand over, if it had begun: see sharemesh cluster; "
            "only a restart lets it take part again",
            code=INTERRUPTED,
        ) from None
    if left:
        raise CommandError(
            f"node {args.node} still leads {left} after {args.wait} s; is there another node of "
            "its role? see sharemesh cluster"
        )
    if session.as_json:
        session.show_json({"node": args.node, "drained": True})
    session.say(
        f"node {args.node} leads nothing any more; restart it to take part again (under "
        f"'sharemesh up': sharemesh up restart {args.node})"
    )
    return 0


def _drained(admin: AdminClient, node_id: str, wait_s: int) -> str:
    """Drain a node; return what it still leads when the wait is over."""
    clock = SystemClock()
    admin.drain_node(node_id)
    deadline_ms = clock.now_ms() + wait_s * 1_000
    while left := _led_by(admin.describe_cluster(), node_id):
        if clock.now_ms() >= deadline_ms:
            return left
        Event().wait(DRAIN_POLL_S)
    return ""


def _led_by(cluster: ClusterDescription, node_id: str) -> str:
    """Return as text what a node leads; empty if nothing."""
    partitions = sum(each.led_partitions for each in cluster.nodes if each.node_id == node_id)
    shards = [each.election for each in cluster.shards if each.leader_id == node_id]
    words = [counted(partitions, "partition")] if partitions else []
    words += shards
    if cluster.controller_id == node_id:
        words.append("the office of the controller")
    return ", ".join(words)


def _cluster(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    found = admin.describe_cluster(partitions=args.partitions)
    shown = _tables(found)
    if session.as_json:
        if not args.partitions:
            del shown["partitions"]
        session.show_json(
            {
                "cluster": found.cluster_id,
                "controller": found.controller_id,
                **shown,
                "storage_problems": list(found.storage_problems),
            }
        )
        return 0
    session.say(f"cluster {found.cluster_id}, controller {found.controller_id or '-'}")
    nodes = "node, role, address, rack, pid, partitions, state, version"
    session.show(shown["nodes"], nodes, empty="no process is known")
    shards = "shard, leader, epoch"
    if any(each["reason"] for each in shown["shards"]):
        shards += ", reason"
    session.show(shown["shards"], shards, empty="no coordinator shard is known")
    if args.partitions:
        partitions = "partition, leader, epoch, standbys"
        session.show(shown["partitions"], partitions, empty="there is no topic")
    if shown["moves"]:
        session.show(shown["moves"], "partition:MOVING, from, to, epoch", empty="")
    for problem in found.storage_problems:
        session.say(f"STORAGE: {problem}")
    if shown["unassigned"]:
        session.show(shown["unassigned"], "partition:WITHOUT LEADER, reason", empty="")
    return 0


def _tables(found: ClusterDescription) -> dict[str, list[dict[str, Any]]]:
    """Return rows by table, as `--json` prints them."""
    return {
        "nodes": [
            {
                "node": each.node_id,
                "role": each.role,
                "address": each.address,
                "rack": each.rack,
                "pid": each.pid or None,
                "partitions": each.led_partitions,
                "state": "draining" if each.draining else "running",
                "version": each.version,
            }
            for each in found.nodes
        ],
        "shards": [
            {
                "shard": each.election,
                "leader": each.leader_id,
                "epoch": each.epoch,
                "reason": each.reason,
            }
            for each in found.shards
        ],
        "partitions": [
            {
                "partition": str(each.partition),
                "leader": each.leader_id,
                "epoch": each.leader_epoch,
                "standbys": ", ".join(each.standbys),
            }
            for each in found.partitions
        ],
        "moves": [
            {
                "partition": str(each.partition),
                "from": each.from_node_id,
                "to": each.to_node_id,
                "epoch": each.leader_epoch,
            }
            for each in found.moves
        ],
        "unassigned": [
            {"partition": str(where), "reason": reason} for where, reason in found.unassigned
        ],
    }
