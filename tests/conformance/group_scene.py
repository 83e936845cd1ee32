"""What the tests of section M share: a group coordinator asked over gRPC."""

from functools import partial

from sharemesh import methods
from sharemesh.domain.ids import GroupId, MemberId, TopicPartition
from sharemesh.group_coordinator.group_shard import group_shard_kind
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.group_coordinator.over_grpc import GrpcWorld
from tests.group_coordinator.world import assigned, topic_id
from tests.group_coordinator.world import world as any_world

G, M1 = GroupId("g"), MemberId("m1")
world = partial(any_world, kind=GrpcWorld)


async def no_interval(made):
    await made.cluster_configs(group_share_assignment_interval_ms="0")


async def stored(made, *records):
    """Put records into the group log, as an earlier coordinator might have, and serve it."""
    await made.stop()
    kind = group_shard_kind(made.clock)
    made.epoch += 1
    log = await made.logs.open("group", 0, made.epoch)
    log.append([kind.encode(record) for record in records])
    await log.committed(log.end_offset)
    await log.close()
    await made.start()


async def settled(made, group="g"):
    """Wait until initialization and assignment have nothing to do."""

    def quiet():
        found = made.service.served[0].decisions.group(group)
        return found is not None and not found.initializing and not found.assignment_pending

    await made.until(quiet)
    await made.clock.settle()


def sent(made, at=-1):
    """One Initialize as {(topic, partition): (state epoch, start offset)}."""
    return made.states.initialized[at][1]


def part(name, number):
    return TopicPartition(topic_id(name), number)


def size(answer):
    return sum(map(len, (assigned(answer) or {}).values()))


async def delete_groups(made, *groups):
    response = await made.call(methods.DELETE_GROUPS, pb.DeleteGroupsRequest(group_ids=groups))
    return [each.error_code for each in response.results]
