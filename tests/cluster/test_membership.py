"""Sessions that are lost while a process registers are replaced, but not for ever."""

import pytest

from sharemesh.cluster.membership import START_ATTEMPTS
from sharemesh.ports.cluster import Role
from sharemesh.ports.coordination import CoordinationError, SessionLostError
from tests.cluster.mesh import Mesh, Node


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


def losing(node, times):
    """Let the session be lost at each of the first registrations; return what is left of them."""
    left = [times]
    commit = node.coordination.commit

    async def lose(guards, operations, *, session=None):
        if left[0] and session is not None:
            left[0] -= 1
            raise SessionLostError("a leased key needs a valid session; open a new one")
        return await commit(guards, operations, session=session)

    node.coordination.commit = lose
    return left


async def test_a_session_that_is_lost_during_the_registration_is_replaced(mesh):
    node = Node(mesh, "a", (Role.SHARE_LEADER,))
    left = losing(node, START_ATTEMPTS - 1)
    await node.start()
    assert left == [0]
    assert node.member.session is not None
    await node.stop()


async def test_a_process_too_slow_to_keep_a_session_is_told_what_to_do(mesh):
    node = Node(mesh, "a", (Role.SHARE_LEADER,))
    losing(node, START_ATTEMPTS)
    with pytest.raises(CoordinationError, match=r"too busy to renew .* raise session_ttl_ms"):
        await node.start()
    assert node.member.session is None
    await node.stop()
