"""The admin client obeys throttle times of any process that it asks (spec QUO-11)."""

import asyncio
import logging
import random

import pytest

from sharemesh import methods
from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import ConnectionFailedError, ThrottlingQuotaExceededError
from sharemesh.client.obeying_caller import ObeyingCaller
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import admin_pb2, common_pb2, group_coordinator_pb2
from tests.clocks import ManualClock

HERE = "a:1"


class Throttling:
    """One process, which is everything; ``says`` are the throttle times of its next answers."""

    def __init__(self):
        self.clock = ManualClock()
        self.network = LocalNetwork()
        self.says = []
        self.refusals = []
        self.asked_at_ms = []
        listener = self.network.listener(HERE)
        listener.offer(methods.METADATA, self.metadata)
        listener.offer(methods.LIST_GROUPS, self.list_groups)
        listener.offer(methods.DESCRIBE_CLIENT_QUOTAS, self.describe)
        environment = ClientEnvironment(
            self.network.caller, self.clock, random.Random(1), lambda: "id"
        )
        config = {"bootstrap.servers": HERE, "default.api.timeout.ms": 10_000}
        self.admin = AsyncAdminClient(config, environment=environment)

    async def metadata(self, request, context):
        node = common_pb2.Node(node_id="a", host="a", port=1, role="group-coordinator")
        return admin_pb2.MetadataResponse(nodes=[node], controller_id="a")

    async def list_groups(self, request, context):
        return group_coordinator_pb2.ListGroupsResponse(throttle_time_ms=self.said())

    async def describe(self, request, context):
        return admin_pb2.DescribeClientQuotasResponse(throttle_time_ms=self.said())

    def said(self):
        self.asked_at_ms.append(self.clock.now_ms())
        if self.refusals:
            throttle_ms = self.refusals.pop(0)
            raise CallFailedError(Failure.RESOURCE_EXHAUSTED, "too much", throttle_ms=throttle_ms)
        return self.says.pop(0) if self.says else 0


@pytest.fixture
async def throttling():
    made = Throttling()
    yield made
    await made.admin.close()


async def answered(here, call, *steps_ms):
    """Return what a call returns, and whether it waited at the end of each step."""
    task = asyncio.create_task(call)
    waited = []
    for step_ms in steps_ms:
        await here.clock.advance(step_ms)
        waited.append(not task.done())
    return await task, waited


async def test_quo_11_the_next_call_waits_for_the_throttle_time_and_it_is_said_once(
    throttling, caplog
):
    caplog.set_level(logging.WARNING)
    throttling.says = [2_000, 500]
    await throttling.admin.describe_client_quotas()
    _, waited = await answered(throttling, throttling.admin.describe_client_quotas(), 1_900, 200)
    assert waited == [True, False]
    first, second = throttling.asked_at_ms
    assert second - first == 2_000
    said = [each for each in caplog.messages if "a quota slows down calls to a:1" in each]
    assert len(said) == 1
    assert "2000 ms" in said[0]
    assert throttling.admin.metrics()["admin-throttle-time-max"] == 2_000
    assert throttling.admin.metrics()["admin-throttle-time-avg"] > 0


async def test_quo_11_a_call_that_a_quota_refused_is_made_again_after_its_throttle_time(throttling):
    throttling.refusals = [1_000, 3_000]
    _, waited = await answered(throttling, throttling.admin.list_groups(), 1_000, 2_900, 200)
    assert waited == [True, True, False]
    first, second, third = throttling.asked_at_ms
    assert (second - first, third - second) == (1_000, 3_000)


async def test_quo_11_a_throttle_time_beyond_the_deadline_ends_the_call_at_once(throttling):
    throttling.says = [30_000]
    await throttling.admin.list_groups()
    with pytest.raises(ThrottlingQuotaExceededError, match=r"a:1 answer in 30000 ms"):
        await throttling.admin._calls.at(
            HERE, methods.LIST_GROUPS, group_coordinator_pb2.ListGroupsRequest()
        )
    listing = asyncio.create_task(throttling.admin.list_groups())
    for _ in range(20):
        await throttling.clock.advance(1_000)
    with pytest.raises(ConnectionFailedError, match="a quota lets a:1 answer"):
        await listing
    assert len(throttling.asked_at_ms) == 1  # nothing was sent meanwhile
    await throttling.clock.advance(10_000)
    await throttling.admin.list_groups()


async def test_quo_11_other_failures_pass_and_other_processes_are_asked_without_a_wait(throttling):
    caller = ObeyingCaller(throttling.network.caller(), throttling.clock)
    request = group_coordinator_pb2.ListGroupsRequest()
    with pytest.raises(CallFailedError, match="unavailable"):
        await caller.call(methods.LIST_GROUPS, request, to="b:1")
    throttling.says = [5_000]
    await caller.call(methods.LIST_GROUPS, request, to=HERE)
    with pytest.raises(CallFailedError, match="unavailable"):
        await caller.call(methods.LIST_GROUPS, request, to="b:1")
    with pytest.raises(CallFailedError) as refused:
        await caller.call(methods.LIST_GROUPS, request, to=HERE, timeout_ms=4_000)
    assert refused.value.failure is Failure.RESOURCE_EXHAUSTED
    assert "may take 4000 ms" in refused.value.message
    await caller.close()


async def test_metrics_of_an_admin_client_that_asked_nothing_are_zero():
    admin = Throttling().admin
    assert set(admin.metrics().values()) == {0}
