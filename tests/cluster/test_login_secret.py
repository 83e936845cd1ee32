"""What salts of users are made with who do not exist (KLS-22)."""

import asyncio
from random import Random

import pytest

from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.login_secret import SECRET_BYTES, login_secret
from sharemesh.ports.coordination import CoordinationError, Put
from tests.cluster.mesh import CLUSTER, Mesh


@pytest.fixture
async def store():
    mesh = Mesh()
    await mesh.begin()
    yield mesh.parent
    await mesh.close()


async def test_a_cluster_has_one_whoever_begins_first(store):
    """KLS-22."""
    found = await asyncio.gather(*(login_secret(store, CLUSTER, Random(n)) for n in range(5)))
    assert len(set(found)) == 1
    assert len(found[0]) == SECRET_BYTES
    assert await login_secret(store, CLUSTER, Random(9)) == found[0]


async def test_who_always_comes_second_is_told(store, monkeypatch):
    async def lost(guards, operations, *, session=None):
        return None

    monkeypatch.setattr(store, "commit", lost)
    with pytest.raises(CoordinationError, match="5 times"):
        await login_secret(store, CLUSTER, Random(1))


@pytest.mark.parametrize("value", [b"?", b'{"v":1}', b'{"v":1,"secret":"salt"}'])
async def test_what_is_no_secret_is_said_without_it(store, value):
    key = Keys(CLUSTER).login_secret
    await store.commit([], [Put(key, value)])
    with pytest.raises(CoordinationError, match="login-secret holds what is no secret"):
        await login_secret(store, CLUSTER, Random(1))
