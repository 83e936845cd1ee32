"""One trial of each fault of parts failover and etcd, with little load on shared meshes."""

import pytest

from tests.faults import etcd, failover
from tests.faults.cut_off import leader_cut_off
from tests.faults.draining import drain, rolling_restart
from tests.faults.namespaces import available
from tests.faults.steady import SMALL

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(240)]
SEED = 20268
FROZEN_S = 11.0  # longer than the lease

IN_TURN = (
    failover.leader_kill,
    failover.share_coordinator_kill,
    failover.group_coordinator_kill,
    failover.consumer_kill,
    failover.lease_revoked,
    failover.leader_frozen,
    drain,
    rolling_restart,
)


async def test_kills_freezes_and_drains_in_turn_lose_nothing_and_repeat_nothing():
    outcome = await failover.in_turn(IN_TURN, SEED, size=SMALL)
    assert outcome.violations == (), outcome.notes
    assert len(outcome.recovery_ms) == len(IN_TURN), outcome.notes


async def test_leaders_outlive_an_etcd_that_is_killed_frozen_or_older_than_the_data():
    outcome = await etcd.on_one_etcd(
        lambda one: [etcd.killed(one), etcd.frozen(one, FROZEN_S), etcd.Restored(one)],
        SEED,
        size=SMALL,
    )
    assert outcome.violations == ()
    assert len(outcome.recovery_ms) == 3


async def test_an_etcd_of_three_goes_on_without_a_node_and_without_its_leader():
    if not available():
        print(f"{etcd.NEEDS_ROOT}: etcd_one_of_three_lost, etcd_leader_cut")
        return
    outcome = await etcd.on_three_nodes(
        lambda nodes, net: [etcd.node_lost(nodes), etcd.leader_cut(nodes, net)], SEED, size=SMALL
    )
    assert outcome.violations == ()
    assert len(outcome.recovery_ms) == 2


async def test_a_leader_that_is_cut_off_is_replaced_and_does_no_harm_when_it_is_back():
    if not available():
        print(f"{etcd.NEEDS_ROOT}: leader_cut_off")
        return
    outcome = await leader_cut_off(0, SEED, size=SMALL)
    assert outcome.violations == ()
