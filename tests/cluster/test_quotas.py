"""Quotas in the store, and the table that follows them (spec QUO-2, QUO-3)."""

import asyncio

import pytest

from sharemesh.cluster.acl_table import NODE_PRINCIPAL
from sharemesh.cluster.quota_table import QuotaTable, Unlimited
from sharemesh.cluster.store.quota_records import (
    QUOTA_ENTITIES_MAX,
    alter_quotas,
    decode_quotas,
    list_quotas,
)
from sharemesh.cluster.view.cluster_state import ClusterState, StateChanges
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.quota.names import QuotaName
from sharemesh.ports.cluster import Role
from sharemesh.ports.coordination import OPERATIONS_MAX, Delete, Put
from tests.cluster.mesh import Mesh
from tests.domain.quota.entities import group, user

PRODUCED, STREAMS = QuotaName.PRODUCER_BYTE_RATE, QuotaName.STREAMS
RECORDS = QuotaName.RECORD_RATE
ANN = user("User:ann")


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


@pytest.fixture
async def view(mesh):
    return (await mesh.add("c", Role.CONTROLLER)).view


@pytest.fixture
def table(view):
    return QuotaTable(view, super_users=["User:root"])


async def stored(mesh, view, entity):
    for found, entry in await list_quotas(mesh.parent, view):
        if found == entity:
            return decode_quotas(entity, entry.value).known
    return {}


async def test_the_table_follows_the_store_and_tells_of_changes_quo_2(mesh, view, table):
    heard = []
    leave = table.on_change(lambda: heard.append(table.limit(PRODUCED, "User:ann")))
    await alter_quotas(mesh.parent, view, user(), {PRODUCED: 7.0, STREAMS: 2.0})
    await mesh.settle()
    await alter_quotas(mesh.parent, view, ANN, {PRODUCED: 5.5})
    await mesh.settle()
    assert heard == [7.0, 5.5]
    assert table.limit(STREAMS, "User:ann") == 2.0
    assert table.limit(PRODUCED, "User:bob") == 7.0
    await alter_quotas(mesh.parent, view, ANN, {PRODUCED: None})
    await mesh.settle()
    assert heard == [7.0, 5.5, 7.0]
    leave()
    await alter_quotas(mesh.parent, view, user(), {PRODUCED: None, STREAMS: None})
    await mesh.settle()
    assert heard == [7.0, 5.5, 7.0]
    assert table.limit(PRODUCED, "User:ann") is None
    assert await list_quotas(mesh.parent, view) == []


async def test_a_process_that_starts_later_knows_all_quotas_at_once_quo_2(mesh, view):
    odd = group("a/default/ü:\\")
    await alter_quotas(mesh.parent, view, odd, {RECORDS: 3.0})
    await alter_quotas(mesh.parent, view, group(), {RECORDS: 9.0})
    late = QuotaTable((await mesh.add("d", Role.CONTROLLER)).view, super_users=[])
    assert late.limit(RECORDS, "a/default/ü:\\") == 3.0
    assert late.limit(RECORDS, "default") == 9.0


async def test_the_clusters_processes_and_super_users_have_no_bound_quo_3(mesh, view, table):
    for entity in (user(), user("User:root"), ANN):
        await alter_quotas(mesh.parent, view, entity, {PRODUCED: 7.0})
    await alter_quotas(mesh.parent, view, group(), {RECORDS: 3.0})
    await mesh.settle()
    assert table.limit(PRODUCED, NODE_PRINCIPAL) is None
    assert table.limit(PRODUCED, "User:root") is None
    assert table.limit(PRODUCED, "User:ann") == 7.0
    assert table.limit(RECORDS, "User:root") == 3.0  # a group of this id is no principal


async def test_a_change_is_whole_or_nothing(mesh, view):
    await alter_quotas(mesh.parent, view, ANN, {PRODUCED: 5.0})
    for entity, changes in (
        (ANN, {PRODUCED: 6.0, STREAMS: 0.5}),
        (user("jane"), {PRODUCED: 6.0}),
    ):
        with pytest.raises(RefusedError):
            await alter_quotas(mesh.parent, view, entity, changes)
    await alter_quotas(mesh.parent, view, ANN, {PRODUCED: 8.0}, validate_only=True)
    await alter_quotas(mesh.parent, view, user("User:bob"), {STREAMS: None})
    assert await list_quotas(mesh.parent, view) != []
    assert await stored(mesh, view, ANN) == {PRODUCED: 5.0}


async def test_changes_of_one_entity_at_once_are_all_kept(mesh, view):
    names = [name for name in QuotaName if name is not RECORDS][:4]
    await asyncio.gather(*(alter_quotas(mesh.parent, view, ANN, {name: 1.0}) for name in names))
    assert await stored(mesh, view, ANN) == dict.fromkeys(names, 1.0)


async def test_what_a_newer_build_stored_is_kept_and_binds_nobody_here(mesh, view, table):
    key = view.keys.quota(ANN)
    newer = b'{"v":1,"values":{"producer_byte_rate":5,"tea_rate":{"cups":3}}}'
    other_type = f"{view.keys.quotas}client-id/named/x"
    await mesh.parent.commit([], [Put(key, newer), Put(other_type, b'{"v":99}')])
    await mesh.settle()
    assert table.limit(PRODUCED, "User:ann") == 5.0
    assert view.tables.unreadable == {}
    await alter_quotas(mesh.parent, view, ANN, {PRODUCED: None})
    kept = (await mesh.parent.get(key)).value
    assert kept == b'{"v":1,"values":{"tea_rate":{"cups":3}}}'


@pytest.mark.parametrize(
    "value",
    [b'{"v":99}', b"", b'{"v":1,"values":7}', b'{"v":1,"values":{"streams":"7"}}']
    + [
        b'{"v":1,"values":{"streams":%s}}' % each
        for each in (b"-1", b"0", b"NaN", b"Infinity", b"true")
    ],
)
async def test_a_record_that_cannot_be_read_binds_nobody_and_is_told_quo_2(
    mesh, view, table, caplog, value
):
    await alter_quotas(mesh.parent, view, ANN, {STREAMS: 5.0})
    await alter_quotas(mesh.parent, view, user(), {STREAMS: 7.0})
    await mesh.settle()
    key = view.keys.quota(ANN)
    await mesh.parent.commit([], [Put(key, value)])
    await mesh.settle()
    assert table.limit(STREAMS, "User:ann") == 7.0
    assert caplog.text.count("quotas that cannot be read bind nobody") == 1
    assert key in caplog.text
    with pytest.raises(RefusedError) as refused:
        await alter_quotas(mesh.parent, view, ANN, {STREAMS: 6.0})
    assert refused.value.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert key in refused.value.message
    await mesh.parent.commit([], [Delete(key)])
    await alter_quotas(mesh.parent, view, ANN, {STREAMS: 6.0})
    await mesh.settle()
    assert table.limit(STREAMS, "User:ann") == 6.0


async def test_a_process_of_0_1_0_passes_over_quotas(mesh, view):
    await alter_quotas(mesh.parent, view, ANN, {STREAMS: 6.0})
    old = ClusterState(view.keys)
    del old._rooms["quotas"]  # as in 0.1.0
    for entry in (await mesh.parent.list(view.keys.prefix)).entries:
        old.apply(entry.key, entry, StateChanges())
    assert old.unreadable == {}


async def test_a_cluster_has_a_bounded_number_of_entities_with_quotas_quo_2(mesh, view):
    puts = [
        Put(view.keys.quota(group(f"g{number}")), b'{"v":1,"values":{"record_rate":1}}')
        for number in range(QUOTA_ENTITIES_MAX)
    ]
    for first in range(0, len(puts), OPERATIONS_MAX):
        await mesh.parent.commit([], puts[first : first + OPERATIONS_MAX])
    for validate_only in (True, False):
        with pytest.raises(RefusedError, match="10000 principals and groups have quotas"):
            await alter_quotas(mesh.parent, view, ANN, {STREAMS: 1.0}, validate_only=validate_only)
    await alter_quotas(mesh.parent, view, group("g7"), {RECORDS: 2.0})
    await alter_quotas(mesh.parent, view, group("g8"), {RECORDS: None})
    await alter_quotas(mesh.parent, view, ANN, {STREAMS: 1.0})
    assert await stored(mesh, view, ANN) == {STREAMS: 1.0}


def test_without_quotas_nothing_binds_anybody():
    quotas = Unlimited()
    assert all(quotas.limit(name, "User:ann") is None for name in QuotaName)
    quotas.on_change(lambda: None)()
