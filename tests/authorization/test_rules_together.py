"""BND-8: rules that come together are stored together; a refused one leaves the others."""

from sharemesh import methods
from sharemesh.cluster.store import acl_rules
from sharemesh.v1 import admin_pb2 as pb
from tests.authorization.world import ROOT, running_world


def rules(*names):
    request = pb.CreateAclsRequest()
    for name in names:
        request.rules.add(
            resource_type=pb.ACL_RESOURCE_TYPE_TOPIC,
            resource_name=name,
            pattern_type=pb.ACL_PATTERN_TYPE_LITERAL,
            principal="User:jane",
            operation=pb.ACL_OPERATION_READ,
            permission=pb.ACL_PERMISSION_ALLOW,
        )
    return request


async def created(world, request):
    answer = await world.call(ROOT, methods.CREATE_ACLS, request)
    return [each.error_code for each in answer.results]


async def test_bnd_8_a_hundred_rules_read_the_stored_ones_twice(monkeypatch):
    reads = []
    entries = acl_rules._entries

    async def counted(coordination, keys):
        reads.append(keys)
        return await entries(coordination, keys)

    async with running_world() as world:
        monkeypatch.setattr(acl_rules, "_entries", counted)
        assert await created(world, rules(*(f"t{number}" for number in range(100)))) == [0] * 100
        assert len(reads) == 2
        await world.until(lambda: len(world.view.tables.acls) == 100)


async def test_bnd_8_a_rule_that_is_refused_leaves_the_others(monkeypatch):
    async with running_world() as world:
        request = rules("t1", "t2", "t3")
        request.rules[1].principal = "nobody"
        assert await created(world, request) == [0, 42, 0]
        await world.until(lambda: len(world.view.tables.acls) == 2)


async def test_bnd_8_without_room_for_all_there_are_as_many_as_fit(monkeypatch):
    monkeypatch.setattr(acl_rules, "ACLS_MAX", 2)
    async with running_world() as world:
        assert await created(world, rules("t1", "t2", "t3")) == [0, 0, 42]
        assert await created(world, rules("t1", "t4")) == [0, 42]
