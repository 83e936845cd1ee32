"""Applications give settings as text, truth values and whole numbers (ADM-3)."""

import random
from enum import IntEnum

import pytest

from sharemesh import methods
from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.admin.setting_texts import changed_texts, setting_text
from sharemesh.client.admin_results import NewTopic
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import IllegalArgumentError
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import admin_pb2, common_pb2
from tests.clocks import ManualClock

PAUSED, BACKOFF = "share.paused", "share.retry.backoff.ms"
NODE = common_pb2.Node(node_id="a", host="a", port=1, role="group-coordinator")


class Delay(IntEnum):
    SHORT = 1000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (1000, "1000"),
        (-1, "-1"),
        (2**63 - 1, "9223372036854775807"),
        (Delay.SHORT, "1000"),
        ("1000", "1000"),
        ("", ""),
        (" 1s", " 1s"),
    ],
)
def test_adm_3_values_are_sent_as_kafka_writes_them(value, text):
    assert setting_text(BACKOFF, value) == text
    assert changed_texts({BACKOFF: value, PAUSED: None}) == {BACKOFF: text, PAUSED: None}


@pytest.mark.parametrize(
    "value", [1.5, b"1000", ["1s", "2s"], 2**63, pytest.param(10**5_000, id="long"), object()]
)
def test_adm_3_anything_else_is_refused_with_the_setting_and_what_is_accepted(value):
    with pytest.raises(IllegalArgumentError, match=rf"^{BACKOFF} is .*give text, True or False"):
        changed_texts({BACKOFF: value})


@pytest.mark.parametrize("name", [None, 1, b"share.paused"])
@pytest.mark.parametrize("value", [True, None])
def test_adm_3_a_name_is_text(name, value):
    with pytest.raises(IllegalArgumentError, match="is no name of a setting: give text"):
        changed_texts({name: value})


class Cluster:
    """One process that keeps what it is asked."""

    def __init__(self):
        network = LocalNetwork()
        listener = network.listener("a:1")
        self.asked = []
        for method in (methods.ALTER_GROUP_CONFIGS, methods.ALTER_CONFIGS, methods.CREATE_TOPICS):
            listener.offer(method, self.keeping(method.response))
        listener.offer(methods.METADATA, self.metadata)
        listener.offer(methods.FIND_COORDINATOR, self.find)
        environment = ClientEnvironment(network.caller, ManualClock(), random.Random(1), str)
        self.admin = AsyncAdminClient({"bootstrap.servers": "a:1"}, environment=environment)

    def keeping(self, answer):
        async def keep(request, context):
            self.asked.append(str(request))
            return answer()

        return keep

    async def metadata(self, request, context):
        return admin_pb2.MetadataResponse(nodes=[NODE], controller_id="a")

    async def find(self, request, context):
        found = [admin_pb2.FoundCoordinator(key=key, node=NODE) for key in request.keys]
        return admin_pb2.FindCoordinatorResponse(coordinators=found)


@pytest.mark.parametrize(
    "change",
    [
        lambda admin, value: admin.alter_group_configs("g", {BACKOFF: value}),
        lambda admin, value: admin.alter_configs({"retention.ms": value}, "t"),
        lambda admin, value: admin.alter_configs({"group.share.max.size": value}),
        lambda admin, value: admin.create_topic("t", configs={"retention.ms": value}),
        lambda admin, value: admin.create_topics([NewTopic("t", configs={"retention.ms": value})]),
    ],
)
async def test_adm_3_groups_topics_and_the_cluster_take_them(change):
    cluster = Cluster()
    async with cluster.admin as admin:
        await change(admin, 5_000)
        [asked] = cluster.asked
        assert '"5000"' in asked
        with pytest.raises(IllegalArgumentError, match=r"is 1\.5: give text"):
            await change(admin, 1.5)
        assert cluster.asked == [asked], "nothing is sent"


async def test_adm_3_a_topic_is_not_created_with_a_setting_that_is_none():
    async with Cluster().admin as admin:
        with pytest.raises(IllegalArgumentError, match=r"retention\.ms is None"):
            await admin.create_topic("t", configs={"retention.ms": None})
