"""A list of groups is whole, or the call says what is missing (spec ADM-4)."""

import asyncio
import random

import pytest

from sharemesh import methods
from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import CoordinatorNotAvailableError
from sharemesh.domain.errors import ErrorCode
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import admin_pb2, common_pb2, group_coordinator_pb2
from tests.clocks import ManualClock

INCOMPLETE = "the list is incomplete: group-1 has no leader"


class Coordinators:
    """Two processes; ``answers`` of each are given in turn, the last one for ever."""

    def __init__(self, **answers):
        self.clock = ManualClock()
        self.began_ms = self.clock.now_ms()
        self.network = LocalNetwork()
        self.answers = answers
        for name in answers:
            listener = self.network.listener(f"{name}:1")
            listener.offer(methods.METADATA, self.metadata)
            listener.offer(methods.LIST_GROUPS, self.listing(name))
        environment = ClientEnvironment(
            self.network.caller, self.clock, random.Random(1), lambda: "id"
        )
        config = {"bootstrap.servers": "a:1", "default.api.timeout.ms": 5_000}
        self.admin = AsyncAdminClient(config, environment=environment)

    async def metadata(self, request, context):
        nodes = [
            common_pb2.Node(node_id=name, host=name, port=1, role="group-coordinator")
            for name in ("a", "b")
        ]
        return admin_pb2.MetadataResponse(nodes=nodes, controller_id="a")

    def listing(self, name):
        async def answer(request, context):
            left = self.answers[name]
            return left.pop(0) if len(left) > 1 else left[0]

        return answer


def holds(*groups, shards=(), count=2, code=0):
    answer = group_coordinator_pb2.ListGroupsResponse(
        shards=shards, shard_count=count, error_code=code, error_message="group-1 loads"
    )
    for group in groups:
        answer.groups.add(group_id=group, group_type="share", group_state="Empty")
    return answer


@pytest.fixture
async def made():
    opened = []

    def make(**answers):
        opened.append(Coordinators(**answers))
        return opened[-1]

    yield make
    for each in opened:
        await each.admin.close()


async def listed(here, **kwargs):
    listing = asyncio.create_task(here.admin.list_groups(**kwargs))
    await here.clock.settle()
    while not listing.done():
        await here.clock.advance(100)
    return [each.group_id for each in await listing]


async def test_a_list_in_which_a_shard_is_missing_fails_at_the_end_of_its_time(made):
    here = made(a=[holds("x", shards=[0])], b=[holds()])
    with pytest.raises(CoordinatorNotAvailableError, match=INCOMPLETE):
        await listed(here)
    assert 3_500 < here.clock.now_ms() - here.began_ms <= 5_100


async def test_a_partial_list_is_what_can_be_listed_now(made):
    here = made(a=[holds("x", shards=[0])], b=[holds(code=ErrorCode.COORDINATOR_NOT_AVAILABLE)])
    assert await listed(here, partial=True) == ["x"]
    assert here.clock.now_ms() == here.began_ms


async def test_a_shard_that_moved_between_two_questions_is_asked_for_again(made):
    here = made(a=[holds("x", shards=[0])], b=[holds(), holds("y", shards=[1])])
    assert await listed(here) == ["x", "y"]


async def test_the_groups_of_a_process_that_does_not_answer_are_missing(made):
    here = made(a=[holds("x", shards=[0])])
    with pytest.raises(CoordinatorNotAvailableError, match=INCOMPLETE):
        await listed(here)


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
async def test_of_an_older_process_its_error_says_that_the_list_is_not_whole(made, code):
    old = holds(count=0, code=code)
    here = made(a=[holds("x", shards=[0])], b=[old])
    with pytest.raises(Exception, match="group-1 loads") as raised:
        await listed(here)
    assert raised.value.code == code
    whole = made(a=[holds("x", shards=[0])], b=[holds("y", count=0)])
    assert await listed(whole) == ["x", "y"]
