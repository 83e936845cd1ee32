"""``sharemesh cluster``: who runs, and who leads what."""

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

from sharemesh.backends.local.clock import SystemClock
from sharemesh.cli.entry import INTERRUPTED
from sharemesh.cli.formatting import counted
from sharemesh.cli.session import CommandError, connection_flags, session_of
from sharemesh.client import AdminClient, AsyncAdminClient
from sharemesh.client.admin_results import ClusterDescription

DRAIN_POLL_MS = 200
_NODE_COLUMNS = {
    "node": "NODE",
    "role": "ROLE",
    "address": "ADDRESS",
    "rack": "RACK",
    "pid": "PID",
    "partitions": "PARTITIONS",
    "state": "STATE",
    "version": "VERSION",
}
_SHARD_COLUMNS = {"shard": "SHARD", "leader": "LEADER", "epoch": "EPOCH"}
_MOVE_COLUMNS = {"partition": "MOVING", "from": "FROM", "to": "TO", "epoch": "EPOCH"}
_PARTITION_COLUMNS = {
    "partition": "PARTITION",
    "leader": "LEADER",
    "epoch": "EPOCH",
    "standbys": "STANDBYS",
}


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the commands to the command line."""
    cluster = subparsers.add_parser(
        "cluster",
        parents=[connection_flags()],
        help="show processes, coordinator shards, moves, and why something has no leader",
        epilog="examples:\n  sharemesh cluster\n  sharemesh cluster --partitions --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cluster.add_argument(
        "--partitions",
        action="store_true",
        help="every partition too: its leader, leader epoch and standbys",
    )
    cluster.set_defaults(run=_cluster)
    _register_drain(cluster)


def _register_drain(cluster: argparse.ArgumentParser) -> None:
    actions = cluster.add_subparsers(metavar="ACTION")
    drain = actions.add_parser(
        "drain",
        parents=[connection_flags()],
        help="let a process hand over all it leads, before it is restarted or removed",
        epilog="examples:\n  sharemesh cluster drain share-leader-1",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    drain.add_argument("node", metavar="NODE", help="as `sharemesh cluster` names it")
    drain.add_argument(
        "--wait", type=int, default=60, metavar="S", help="seconds until it must lead nothing"
    )
    drain.set_defaults(run=_drain)


def _drain(args: argparse.Namespace) -> int:
    """Return 0 once the node leads nothing; 1 if it still does after ``--wait`` seconds."""
    session = session_of(args)
    try:
        left = asyncio.run(_drained(session.admin_settings, args.node, args.wait))
    except KeyboardInterrupt:
        raise CommandError(
            f"node {args.node} goes on handing over, if it had begun: see sharemesh cluster; only "
            "a restart lets it take part again",
            code=INTERRUPTED,
        ) from None
    if left:
        raise CommandError(
            f"node {args.node} still leads {left} after {args.wait} s; is there another node of "
            "its role? see sharemesh cluster"
        )
    if session.as_json:
        session.show_json({"node": args.node, "drained": True})
    else:
        session.say(
            f"node {args.node} leads nothing any more; restart it to take part again (under "
            f"'sharemesh up': sharemesh up restart {args.node})"
        )
    return 0


async def _drained(settings: Mapping[str, Any], node_id: str, wait_s: int) -> str:
    """Drain a node; return what it still leads when the wait is over."""
    clock = SystemClock()
    async with AsyncAdminClient(settings) as admin:
        await admin.drain_node(node_id)
        deadline_ms = clock.now_ms() + wait_s * 1_000
        while left := _led_by(await admin.describe_cluster(), node_id):
            if clock.now_ms() >= deadline_ms:
                return left
            await clock.sleep_ms(DRAIN_POLL_MS)
    return ""


def _led_by(cluster: ClusterDescription, node_id: str) -> str:
    """Return in words what a node leads; empty when nothing."""
    partitions = sum(each.led_partitions for each in cluster.nodes if each.node_id == node_id)
    shards = [each.election for each in cluster.shards if each.leader_id == node_id]
    words = [counted(partitions, "partition")] if partitions else []
    words += shards
    if cluster.controller_id == node_id:
        words.append("the office of the controller")
    return ", ".join(words)


def _cluster(args: argparse.Namespace) -> int:
    session = session_of(args)
    with AdminClient(session.admin_settings) as admin:
        found = admin.describe_cluster(partitions=args.partitions)
    shown = _tables(found)
    if session.as_json:
        if not args.partitions:
            del shown["partitions"]
        session.show_json({"cluster": found.cluster_id, "controller": found.controller_id, **shown})
        return 0
    session.say(f"cluster {found.cluster_id}, controller {found.controller_id or '-'}")
    session.show(shown["nodes"], _NODE_COLUMNS, empty="no process is known")
    shards = shown["shards"]
    columns = _SHARD_COLUMNS | ({"reason": "REASON"} if any(s["reason"] for s in shards) else {})
    session.show(shards, columns, empty="no coordinator shard is known")
    if args.partitions:
        session.show(shown["partitions"], _PARTITION_COLUMNS, empty="there is no topic")
    if shown["moves"]:
        session.show(shown["moves"], _MOVE_COLUMNS, empty="")
    if shown["unassigned"]:
        session.show(
            shown["unassigned"], {"partition": "WITHOUT LEADER", "reason": "REASON"}, empty=""
        )
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
