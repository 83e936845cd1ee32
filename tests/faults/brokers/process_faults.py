"""Processes of Sharemesh die or freeze while their logs are topics; etcd stands still."""

import asyncio
import signal
from collections import Counter

from tests.faults import failover
from tests.faults.brokers.broker_load import BrokerLoad
from tests.faults.etcd import LEASES_OUT_S, go_back_to
from tests.faults.etcd_nodes import etcdctl
from tests.history.journal import now_ms

ZOMBIE_S = 1.0
ETCD_FROZEN_S = 20.0
RAISED = ("share-leader", "share-coordinator")
"""Roles whose epochs rise above those of a backup."""

DOWN_S = 1.0


async def leader_killed(load: BrokerLoad) -> tuple[float, str]:
    """SIGKILL of the share leader that leads most partitions."""
    return await failover.leader_kill(load.steady)


async def share_coordinator_killed(load: BrokerLoad) -> tuple[float, str]:
    """SIGKILL of the share coordinator that leads most shards."""
    return await failover.share_coordinator_kill(load.steady)


async def group_coordinator_killed(load: BrokerLoad) -> tuple[float, str]:
    """SIGKILL of the group's coordinator."""
    return await failover.group_coordinator_kill(load.steady)


async def zombie_leader(load: BrokerLoad) -> tuple[float, str]:
    """A share leader freezes past its lease, others take over, it wakes up under load."""
    return await failover.leader_frozen(load.steady)


async def zombie_coordinator(load: BrokerLoad) -> tuple[float, str]:
    """The share coordinator of most shards freezes past its lease and wakes up under load.

    What it had under way then reaches a log that another one writes.
    """
    shards = (await load.mesh.admin.describe_cluster()).shards
    leaders = Counter(each.leader_id for each in shards if each.election.startswith("state-"))
    leader, led = leaders.most_common(1)[0]
    index = int(leader.rsplit("-", 1)[1])
    marks, at_ms = load.marks(), now_ms()
    load.mesh.cluster.kill("share-coordinator", index, signal.SIGSTOP)
    try:
        took_ms = await load.until_fresh(at_ms, marks)
        await asyncio.sleep(ZOMBIE_S)
    finally:
        load.mesh.cluster.kill("share-coordinator", index, signal.SIGCONT)
    await load.until_fresh(now_ms(), load.marks())
    return took_ms, f"{led} of {leaders.total()} shards"


async def etcd_frozen(load: BrokerLoad) -> tuple[float, str]:
    """The only etcd stands still for longer than leases, then goes on; counted from there."""
    load.etcd.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(ETCD_FROZEN_S)
    finally:
        marks, at_ms = load.marks(), now_ms()
        load.etcd.send_signal(signal.SIGCONT)
    return await load.until_fresh(at_ms, marks), "after it went on"


async def etcd_restored(load: BrokerLoad) -> tuple[float, str]:
    """Etcd goes back to a backup: epochs in it were used since, and its notes of logs are older."""
    etcd = load.etcd
    backup = etcd.directory / "backup.db"
    await asyncio.to_thread(etcdctl, "snapshot", "save", str(backup), endpoints=(etcd.endpoint,))
    for index in range(2):
        for role in RAISED:
            load.mesh.kill_role(role, index)
            await asyncio.sleep(DOWN_S)
            await load.settled()
    etcd.stop()
    await asyncio.to_thread(go_back_to, etcd, backup)
    marks, at_ms = load.marks(), now_ms()
    await etcd.start()
    took_ms = await load.until_fresh(at_ms, marks)
    await asyncio.sleep(LEASES_OUT_S)  # leaders may still stop after a first success
    again_ms = await load.until_fresh(now_ms(), load.marks())
    return took_ms, f"{again_ms:.0f} ms after the leases of the backup, after its start"
