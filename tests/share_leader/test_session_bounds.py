"""Sessions of a group and of a principal: one tenant leaves room for others (BND-16)."""

from dataclasses import asdict

import pytest

from sharemesh import methods
from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS, MAX_SIZE
from sharemesh.domain.share_session import SessionKey
from sharemesh.serve.roles.share_leader import leader_settings
from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.world import FOO, TopicPartition, world

P0 = TopicPartition(FOO, 0)


async def set_max_size(w, most):
    """Set ``group.share.max.size`` and wait until the leader sees it."""
    named = {"group.share.max.size": most}
    await w.write(w.cluster_settings(named), until=lambda: dict(w.view.cluster_configs()) == named)


async def test_one_principal_in_many_groups_leaves_as_many_sessions_to_others():
    async with world(max_share_sessions=4, max_principal_sessions=2) as w:
        await w.lead(P0)
        for number in range(2):
            mallory = w.client("m", f"mallory-{number}", "User:mallory")
            assert (await mallory.fetch(P0)).error_code == 0
        refused = await w.client("m", "mallory-9", "User:mallory").fetch(P0)
        assert refused.error_code == 133
        assert "'User:mallory' holds 2 of at most 2 share sessions" in refused.error_message
        alice = w.client("m", "alice", "User:alice")
        assert (await alice.fetch(P0)).error_code == 0
        stream = await w.client("n", "mallory-9", "User:mallory").consume(P0)
        assert (await anext(stream)).error_code == 133


async def test_bnd_16_one_principal_holds_no_more_streams_than_its_sessions_can_need():
    async with world(max_share_sessions=4, max_principal_sessions=2) as w:
        await w.lead(P0)
        invented = [w.client(f"m{n}", "g", "User:mallory") for n in range(5)]
        held = [await each.hold() for each in invented[:4]]
        refused = await invented[4].caller.stream(methods.HOLD_SESSION, to=w.address)
        await refused.send(pb.HoldSessionRequest(group_id="g", member_id="m4"))
        answer = await anext(refused)
        assert answer.error_code == 133
        assert "'User:mallory' has 4 HoldSession streams" in answer.error_message
        with pytest.raises(StopAsyncIteration):
            await anext(refused)
        await w.client("alice", "g", "User:alice").hold()
        await held[0].close()
        with pytest.raises(StopAsyncIteration):
            await anext(held[0])
        await invented[4].hold()


def opened(sessions, group, members, principal):
    for number in range(members):
        sessions.open(SessionKey(group, f"{principal}-{number}"), principal)


@pytest.mark.parametrize(("most", "members"), [(1_000, 1_000), (2_000, 1_000)])
async def test_the_members_of_the_largest_group_with_one_certificate_all_get_in(most, members):
    async with world(**asdict(leader_settings(most, callers_have_names=True))) as w:
        await set_max_size(w, f"{members}")
        await w.lead(P0)
        opened(w.service.session_cache.sessions, "g", members, "User:app")
        others = await w.client("other", "h", "User:other").fetch(P0)
        assert others.error_code == 0


async def test_what_fitted_before_principals_were_told_apart_fits_with_one_principal():
    async with world(**asdict(leader_settings(2_000, callers_have_names=True))) as w:
        sessions = w.service.session_cache.sessions
        for number in range(3):
            opened(sessions, f"g{number}", 500, "User:app")
        assert len(sessions) == 1_500


@pytest.mark.parametrize("most", [1, 2, 9])
async def test_after_one_principal_took_what_it_can_the_others_have_the_whole_setting(most):
    async with world(**asdict(leader_settings(most, callers_have_names=True))) as w:
        await w.lead(P0)
        taken = [
            (await w.client(f"invented-{n}", f"g{n}", "User:mallory").fetch(P0)).error_code
            for n in range(3 * most)
        ]
        assert taken == [0] * most + [133] * 2 * most
        for n in range(most):
            client = w.client(f"m{n}", "h", f"User:{'alice' if n % 2 else 'bob'}")
            assert (await client.fetch(P0)).error_code == 0


async def test_a_lower_most_size_refuses_no_member_of_a_group_that_is_larger():
    async with world() as w:
        await w.lead(P0)
        await set_max_size(w, "2")
        for member in ("m1", "m2", "m3"):
            assert (await w.client(member).fetch(P0)).error_code == 0


async def test_a_principal_has_as_many_sessions_in_a_group_as_it_can_ever_have_members():
    async with world(max_group_sessions=2) as w:
        await w.lead(P0)
        for member in ("m1", "m2"):
            assert (await w.client(member).fetch(P0)).error_code == 0
        refused = await w.client("m3").fetch(P0)
        assert (refused.error_code, "group 'g' holds 2" in refused.error_message) == (133, True)
        assert (await w.client("m1", "h").fetch(P0)).error_code == 0
        assert (await w.client("m4", "g", "User:other").fetch(P0)).error_code == 0
    assert LeaderSettings().max_group_sessions == CLUSTER_CONFIGS[MAX_SIZE].maximum


@pytest.mark.parametrize(
    ("grpc", "kafka", "of_all"),
    [(True, False, 4_000), (False, False, 2_000), (False, True, 4_000), (True, True, 4_000)],
)
def test_a_principal_has_what_is_set_and_others_have_as_much_again(grpc, kafka, of_all):
    settings = leader_settings(2_000, callers_have_names=grpc, kafka_clients_have_names=kafka)
    assert (settings.max_principal_sessions, settings.max_share_sessions) == (2_000, of_all)
