"""A coordinator shard that lost confirmed records is shown, and given up when told (STL-25)."""

import pytest

from sharemesh import methods
from sharemesh.cli.commands import main
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import AcceptedLoss
from sharemesh.cluster.store.seen_records import decode_seen, encode_seen
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.stamped_log.seen import LostUnits, SeenUnits
from sharemesh.ports.authorizer import CLUSTER_NAME, Operation, ResourceType
from sharemesh.ports.cluster import Role, ShardKind
from sharemesh.ports.coordination import Put
from tests.admin.world import World

LOST = SeenUnits(
    4, 7, 90, 7, 90, loss=LostUnits(confirmed=9, confirmed_end=95, found=7, found_end=90)
)


@pytest.fixture
async def world():
    world = await World().start()
    yield world
    await world.stop()


async def lose(world) -> str:
    key = world.view.keys.seen_log("state-1")
    await world.coordination.commit([], [Put(key, encode_seen(LOST))])
    await world.sees(lambda: "state-1" in world.view.tables.losses)
    return key


async def reasons(world) -> dict[str, str]:
    found = await world.call(methods.DESCRIBE_CLUSTER)
    return {each.election: each.reason for each in found.shards}


async def test_stl_25_the_description_of_the_cluster_says_what_was_lost_and_what_to_do(world):
    await world.register("a", *Role)
    await world.elect("a", ShardKind.STATE, 1)  # somebody tries all the time
    await lose(world)
    found = await reasons(world)
    assert "9 units up to offset 95 were confirmed, and 7 were left" in found["state-1"]
    assert "sharemesh shards accept-loss state-1" in found["state-1"]
    assert found["state-0"].startswith("it is being elected")


async def test_stl_27_a_loss_is_given_up_once(world):
    key = await lose(world)
    answer = await world.call(methods.ACCEPT_LOSS, shard="state-1")
    assert (answer.error_code, answer.confirmed, answer.left) == (0, 9, 7)
    await world.sees(lambda: not world.view.tables.losses)
    assert (await reasons(world))["state-1"] != LOST
    seen = decode_seen(world.coordination.store.get(key).value)
    assert (seen.units, seen.accepted, seen.loss) == (7, 1, None)
    again = await world.call(methods.ACCEPT_LOSS, shard="state-1")
    assert again.error_code == ErrorCode.INVALID_REQUEST
    assert again.error_message == "no loss of shard 'state-1' waits for an answer"


async def test_stl_27_it_needs_alter_on_the_cluster(world):
    key = await lose(world)
    world.rules.denied.add((Operation.ALTER.value, ResourceType.CLUSTER.value, CLUSTER_NAME))
    answer = await world.call(methods.ACCEPT_LOSS, shard="state-1")
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert decode_seen(world.coordination.store.get(key).value) == LOST


def test_the_command_says_what_was_given_up(monkeypatch, capsys):
    lost = AcceptedLoss("state-1", 9, 7)
    monkeypatch.setattr(AdminClient, "accept_loss", lambda _admin, shard: lost)
    words = ["shards", "accept-loss", "state-1", "--bootstrap", "127.0.0.1:9"]
    assert main(words) == 0
    assert "shard state-1: given up 2 lost commits of 9" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert '"left": 7' in capsys.readouterr().out
