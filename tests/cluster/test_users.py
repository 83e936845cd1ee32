"""What is kept of users' passwords in the store, and the table that follows it (KLS-25)."""

import asyncio

import pytest

from sharemesh.cluster.store import user_records
from sharemesh.cluster.store.records import RecordFormatError
from sharemesh.cluster.store.user_records import (
    StoredUser,
    alter_user,
    decode_user,
    encode_user,
    list_users,
)
from sharemesh.cluster.user_table import UserTable
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.scram_credentials import ScramCredential, ScramMechanism
from sharemesh.ports.cluster import Role
from sharemesh.ports.coordination import Put
from tests.cluster.mesh import Mesh

SMALL, LARGE = ScramMechanism
KEPT = {
    each: ScramCredential(b"saltsalt", 4_096, b"s" * each.key_bytes, b"k" * each.key_bytes)
    for each in ScramMechanism
}
ODD = "Jané, a/b=c"


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
    return UserTable(view)


async def test_processes_know_what_is_stored(mesh, view, table):
    await alter_user(mesh.parent, view, ODD, KEPT)
    await mesh.settle()
    assert table.credential(ODD, LARGE) == KEPT[LARGE]
    assert await list_users(mesh.parent, view) == [(ODD, KEPT)]
    await alter_user(mesh.parent, view, ODD, {LARGE: None})
    late = UserTable((await mesh.add("d", Role.CONTROLLER)).view)
    for each in (table, late):
        assert each.credential(ODD, LARGE) is None
        assert each.credential(ODD, SMALL) == KEPT[SMALL]
    await alter_user(mesh.parent, view, ODD, {SMALL: None})
    await mesh.settle()
    assert table.credential(ODD, SMALL) is None
    assert await list_users(mesh.parent, view) == []


async def test_a_change_is_whole_or_nothing(mesh, view):
    await alter_user(mesh.parent, view, "ann", {SMALL: KEPT[SMALL]})
    for changes, code in (
        ({SMALL: None, LARGE: None}, ErrorCode.RESOURCE_NOT_FOUND),
        ({SMALL: None, LARGE: KEPT[SMALL]}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ):
        with pytest.raises(RefusedError) as caught:
            await alter_user(mesh.parent, view, "ann", changes)
        assert caught.value.error is code
    assert await list_users(mesh.parent, view) == [("ann", {SMALL: KEPT[SMALL]})]


async def test_changes_of_one_user_at_once_are_all_kept(mesh, view):
    await asyncio.gather(
        *(alter_user(mesh.parent, view, "ann", {each: KEPT[each]}) for each in ScramMechanism)
    )
    assert await list_users(mesh.parent, view) == [("ann", KEPT)]


async def test_who_meets_changes_each_time_is_told(mesh, view, monkeypatch):
    async def never(guards, writes):
        return None

    monkeypatch.setattr(mesh.parent, "commit", never)
    with pytest.raises(RefusedError, match="changed 5 times meanwhile") as caught:
        await alter_user(mesh.parent, view, "ann", KEPT)
    assert caught.value.error is ErrorCode.REQUEST_TIMED_OUT


async def test_a_cluster_has_a_bound_of_users(mesh, view, monkeypatch):
    monkeypatch.setattr(user_records, "USERS_MAX", 1)
    await alter_user(mesh.parent, view, "ann", KEPT)
    await alter_user(mesh.parent, view, "ann", KEPT)
    with pytest.raises(RefusedError, match="delete some"):
        await alter_user(mesh.parent, view, "bob", KEPT)


@pytest.mark.parametrize(
    "value",
    [
        b'{"v":2}',
        b'{"v":1,"scram":3}',
        b'{"v":1,"scram":{"SCRAM-SHA-256":3}}',
        b'{"v":1,"scram":{"SCRAM-SHA-256":{"salt":"!","iterations":1}}}',
        b'{"v":1,"scram":{"SCRAM-SHA-256":{"salt":"AA==","iterations":"x"}}}',
    ],
)
async def test_who_cannot_be_read_cannot_log_in_and_is_said_once(mesh, view, table, value, caplog):
    await alter_user(mesh.parent, view, "ann", KEPT)
    for name in ("ann", "other"):
        await mesh.parent.commit([], [Put(view.keys.user(name), value)])
        await mesh.settle()
    assert table.credential("ann", SMALL) is None
    assert sum("cannot log in" in each for each in caplog.messages) == 2
    assert await list_users(mesh.parent, view) == []
    with pytest.raises(RefusedError, match="ask a newer process"):
        await alter_user(mesh.parent, view, "ann", KEPT)
    with pytest.raises(RecordFormatError):
        decode_user(value)


async def test_what_newer_builds_keep_of_a_user_stays(mesh, view, table):
    """KLS-25: an older process neither shows nor drops it, and deletes no user who has it."""
    stored = encode_user(StoredUser({}, {"SCRAM-SHA-999": {"kept": 1}}))
    key = view.keys.user("ann")
    await mesh.parent.commit([], [Put(key, stored)])
    for changes in (KEPT, {SMALL: None}, {LARGE: None}):
        await alter_user(mesh.parent, view, "ann", changes)
    await mesh.settle()
    assert (await mesh.parent.get(key)).value == stored
    assert decode_user(stored) == StoredUser({}, {"SCRAM-SHA-999": {"kept": 1}})
    assert table.credential("ann", LARGE) is None
    assert await list_users(mesh.parent, view) == [("ann", {})]
