"""Quotas as RPCs: what is stored, found and refused (spec QUO-7, QUO-8)."""

import math

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.quota.names import QuotaName
from sharemesh.ports.authorizer import CLUSTER_NAME
from sharemesh.ports.coordination import CoordinationError, Put
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as pb
from tests.admin.world import World

ANN, BOB = ("user", "User:ann"), ("user", "User:bob")
USERS, GROUPS, ORDERS = ("user", None), ("group", None), ("group", "orders")


@pytest.fixture
async def world():
    world = await World().start()
    yield world
    await world.stop()


def entry(entity, *removed, **values):
    """Return the changes of one entity."""
    components = [entity] if isinstance(entity, tuple) else entity
    return pb.QuotaAlteration(
        entity=[pb.QuotaEntity(entity_type=kind, entity_name=name) for kind, name in components],
        ops=[
            *(pb.QuotaOperation(key=key, value=value) for key, value in values.items()),
            *(pb.QuotaOperation(key=key, remove=True) for key in removed),
        ],
    )


async def alter(world, *entries, validate_only=False):
    answer = await world.call(
        methods.ALTER_CLIENT_QUOTAS, entries=entries, validate_only=validate_only
    )
    assert [list(each.entity) for each in answer.results] == [list(e.entity) for e in entries]
    return [each.error_code for each in answer.results]


async def refused(world, change):
    """Return code and words of the only entry; it is the same answer if nothing is to be stored."""
    answers = [
        await world.call(methods.ALTER_CLIENT_QUOTAS, entries=[change], validate_only=only)
        for only in (True, False)
    ]
    assert answers[0] == answers[1]
    (result,) = answers[0].results
    return ErrorCode(result.error_code), result.error_message


async def found(world, *components, strict=False):
    """Return the values by entity, in the order of the answer."""
    answer = await world.call(methods.DESCRIBE_CLIENT_QUOTAS, components=components, strict=strict)
    assert answer.error_code == 0, answer.error_message
    values = {}
    for each in answer.entries:
        (entity,) = each.entity
        name = entity.entity_name if entity.HasField("entity_name") else None
        values[entity.entity_type, name] = {value.key: value.value for value in each.values}
    return values


def wanted(kind, match=pb.QUOTA_MATCH_ANY, text=None):
    return pb.QuotaFilterComponent(entity_type=kind, match=match, match_text=text)


async def test_what_is_set_is_found_and_what_is_removed_is_not_quo_7(world):
    changes = [entry(ANN, producer_byte_rate=5.5, streams=2), entry(GROUPS, record_rate=7)]
    assert await alter(world, *changes) == [0, 0]
    assert await found(world) == {
        GROUPS: {"record_rate": 7.0},
        ANN: {"producer_byte_rate": 5.5, "streams": 2.0},
    }
    changed = entry(ANN, "producer_byte_rate", "connections", streams=3)
    assert await alter(world, changed, entry(GROUPS, "record_rate")) == [0, 0]
    assert await found(world) == {ANN: {"streams": 3.0}}
    assert await alter(world, changed, entry(BOB), entry(ORDERS, "record_rate")) == [0, 0, 0]
    assert await found(world) == {ANN: {"streams": 3.0}}


async def test_entities_come_by_type_and_name_defaults_first_and_values_by_name(world):
    names = [BOB, ("user", "User:a"), USERS, ORDERS, GROUPS]
    for entity in names:
        value = {"record_rate": 1} if entity[0] == "group" else {"streams": 1, "groups": 1}
        assert await alter(world, entry(entity, **value)) == [0]
    answer = await found(world)
    assert list(answer) == [GROUPS, ORDERS, USERS, ("user", "User:a"), BOB]
    assert list(answer[BOB]) == ["groups", "streams"]


async def test_every_quota_can_be_set(world):
    for name in QuotaName:
        entity = ORDERS if name.entity_type.value == "group" else ANN
        assert await alter(world, entry(entity, **{name.value: 1})) == [0]
    answer = await found(world)
    assert len(answer[ANN]) + len(answer[ORDERS]) == len(QuotaName)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (entry([]), "an entity of 0 components"),
        (entry([ANN, ORDERS]), "an entity of 2 components"),
        (entry(("client-id", "x"), streams=1), "quotas bind user and group"),
        (entry(("user", "ann"), streams=1), "write User:<name>"),
        (entry(("user", "User:*"), streams=1), "give the default"),
        (entry(("user", "User:a\n"), streams=1), "control character"),
        (entry(("user", "User:" + "x" * 2_000), streams=1), "write User:<name>"),
        (entry(ANN, streams=1, producer_byte_rat=1), "did you mean producer_byte_rate?"),
        (entry(ANN, "producer_byte_rat"), "did you mean producer_byte_rate?"),
        (entry(ANN, record_rate=1), "binds a group, not a user"),
        (entry(ORDERS, streams=1), "binds a user, not a group"),
        (entry(ANN, "streams", streams=1), "named twice"),
        (entry(ANN, producer_byte_rate=1, streams=0.5), "whole number"),
        (entry(ANN, producer_byte_rate=0), "above 0"),
        (entry(ANN, producer_byte_rate=-1), "above 0"),
        (entry(ANN, producer_byte_rate=math.nan), "above 0"),
        (entry(ANN, producer_byte_rate=math.inf), "above 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_makes_no_sense_is_refused_and_stores_nothing_quo_7(world, change, words):
    code, message = await refused(world, change)
    assert code is ErrorCode.INVALID_REQUEST
    assert words in message
    assert await found(world) == {}


@pytest.mark.parametrize("group_id", ["", "x" * 1_001, "a\x1bb"])
async def test_ids_that_no_group_can_have_are_refused_quo_7(world, group_id):
    code, _ = await refused(world, entry(("group", group_id), record_rate=1))
    assert code is ErrorCode.INVALID_GROUP_ID
    assert await found(world) == {}


async def test_a_refused_entry_leaves_the_others_and_an_entity_stands_once_quo_7(world):
    entries = [
        entry(ANN, streams=1),
        entry(BOB, streams=0.5),
        entry(ORDERS, record_rate=1),
        entry(ANN, groups=1),
    ]
    assert await alter(world, *entries) == [42, 42, 0, 42]
    assert await found(world) == {ORDERS: {"record_rate": 1.0}}


async def test_a_check_stores_nothing_quo_7(world):
    assert await alter(world, entry(ANN, streams=1), validate_only=True) == [0]
    assert await found(world) == {}


async def test_filters_match_as_kafkas_do_quo_8(world):
    for entity in (ANN, BOB, USERS):
        assert await alter(world, entry(entity, streams=1)) == [0]
    for entity in (ORDERS, GROUPS):
        assert await alter(world, entry(entity, record_rate=1)) == [0]
    exact, default = pb.QUOTA_MATCH_EXACT, pb.QUOTA_MATCH_DEFAULT
    assert set(await found(world, wanted("user", exact, "User:ann"))) == {ANN}
    assert set(await found(world, wanted("user", exact, "ann"))) == set()
    assert set(await found(world, wanted("user", default))) == {USERS}
    assert set(await found(world, wanted("user"), strict=True)) == {USERS, ANN, BOB}
    assert set(await found(world, wanted("group"))) == {GROUPS, ORDERS}
    assert set(await found(world)) == {USERS, ANN, BOB, GROUPS, ORDERS}
    assert set(await found(world, strict=True)) == set()
    assert set(await found(world, wanted("user"), wanted("group"))) == set()


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([wanted("")], 42),
        ([wanted("client-id")], 35),
        ([wanted("user"), wanted("user", pb.QUOTA_MATCH_DEFAULT)], 42),
        ([wanted("user", pb.QUOTA_MATCH_EXACT)], 42),
        ([wanted("user", pb.QUOTA_MATCH_DEFAULT, "User:ann")], 42),
        ([wanted("user", pb.QUOTA_MATCH_ANY, "")], 42),
        ([wanted("user", 7)], 42),
    ],
)
async def test_filters_that_make_no_sense_are_refused_quo_8(world, components, code):
    answer = await world.call(methods.DESCRIBE_CLIENT_QUOTAS, components=components)
    assert (answer.error_code, len(answer.entries)) == (code, 0)
    assert answer.error_message


async def test_without_the_right_nothing_is_told_or_changed(world):
    assert await alter(world, entry(ANN, streams=1)) == [0]
    world.rules.denied.add(("alter_configs", "cluster", CLUSTER_NAME))
    assert await alter(world, entry(ANN, streams=2), entry([])) == [31, 31]
    assert await found(world) == {ANN: {"streams": 1.0}}
    world.rules.denied.add(("describe_configs", "cluster", CLUSTER_NAME))
    answer = await world.call(methods.DESCRIBE_CLIENT_QUOTAS)
    assert (answer.error_code, len(answer.entries)) == (31, 0)


async def test_requests_are_bounded(world):
    entries = [entry(("user", f"User:{n}"), streams=1) for n in range(101)]
    operations = pb.QuotaAlteration(ops=[pb.QuotaOperation(key="streams")] * 101)
    for method, fields in (
        (methods.ALTER_CLIENT_QUOTAS, {"entries": entries}),
        (methods.ALTER_CLIENT_QUOTAS, {"entries": [operations]}),
        (methods.DESCRIBE_CLIENT_QUOTAS, {"components": [wanted("user")] * 101}),
    ):
        with pytest.raises(CallFailedError) as failed:
            await world.call(method, **fields)
        assert failed.value.failure is Failure.INVALID_ARGUMENT
    assert await found(world) == {}
    assert await alter(world, *entries[:100]) == [0] * 100


async def test_a_store_that_does_not_answer_is_said_so(world, monkeypatch):
    async def lost(*_):
        raise CoordinationError("etcd is away")

    monkeypatch.setattr(world.coordination, "get", lost)
    monkeypatch.setattr(world.coordination, "list", lost)
    code, message = await refused(world, entry(ANN, streams=1))
    assert code is ErrorCode.REQUEST_TIMED_OUT
    assert "check whether the change took effect" in message
    answer = await world.call(methods.DESCRIBE_CLIENT_QUOTAS)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_record_that_cannot_be_read_hides_no_others(world):
    assert await alter(world, entry(ANN, streams=1), entry(BOB, streams=1)) == [0, 0]
    key = f"{world.view.keys.quotas}user/named/User:bob"
    await world.coordination.commit([], [Put(key, b"{")])
    assert await found(world) == {ANN: {"streams": 1.0}}
    code, message = await refused(world, entry(BOB, streams=1))
    assert code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert key in message
