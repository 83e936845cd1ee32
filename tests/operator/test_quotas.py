"""Quotas of a ShareCluster: what the operator sets, corrects, takes back and leaves (QUO-16)."""

import pytest

from sharemesh.client.connect import connect
from sharemesh.domain.quota.names import EntityType, QuotaEntity
from sharemesh_operator.resources.quotas import (
    made_quotas,
    made_status,
    of_users,
    quota_change,
    unclaimed,
    wanted_quotas,
    with_wanted,
    without,
)
from tests.operator.sample_objects import addresses

USERS, GROUPS = QuotaEntity(EntityType.USER, None), QuotaEntity(EntityType.GROUP, None)
ETL, BILLING = QuotaEntity(EntityType.USER, "User:etl"), QuotaEntity(EntityType.GROUP, "billing")


def body_of(status=None, **quotas):
    return {"spec": {"quotas": quotas}, "status": {"quotas": status}}


def test_the_object_is_read_in_the_words_of_the_mesh():
    body = body_of(
        userDefault={"streams": 10},
        users=[{"principal": "User:etl", "producerByteRate": 5, "recordsInFlight": 7}],
        groupDefault={},
        groups=[{"groupId": "billing", "recordRate": 3}],
    )
    assert wanted_quotas(body) == {
        USERS: {"streams": 10.0},
        ETL: {"producer_byte_rate": 5.0, "records_in_flight": 7.0},
        BILLING: {"record_rate": 3.0},
    }
    assert wanted_quotas({"spec": {}}) == {}


def test_what_was_made_is_noted_and_read_again():
    made = {USERS: frozenset({"streams", "groups"}), BILLING: frozenset({"record_rate"})}
    noted = made_status(made)
    assert noted == [
        {"entityType": "user", "names": ["groups", "streams"]},
        {"entityType": "group", "entityName": "billing", "names": ["record_rate"]},
    ]
    assert made_quotas(body_of(noted)) == made
    assert made_quotas(body_of()) == made_quotas({"spec": {}}) == {}
    assert made_status({}) is None
    more = with_wanted(made, {ETL: ["streams"], USERS: ["connections"]})
    assert more[USERS] == {"streams", "groups", "connections"}
    assert without(more, {ETL: ["streams"], USERS: ["groups"]}) == {
        USERS: {"streams", "connections"},
        BILLING: {"record_rate"},
    }


@pytest.mark.parametrize(
    ("wanted", "made", "stored", "change"),
    [
        ({}, {}, {ETL: {"streams": 1.0}}, {}),
        ({ETL: {"streams": 1.0}}, {}, {ETL: {"streams": 1.0, "groups": 2.0}}, {}),
        ({ETL: {"streams": 1.0}}, {}, {}, {ETL: {"streams": 1.0}}),
        ({ETL: {"streams": 1.0}}, {}, {ETL: {"streams": 2.0}}, {ETL: {"streams": 1.0}}),
        ({}, {ETL: {"streams"}}, {ETL: {"streams": 9.0}}, {ETL: {"streams": None}}),
        ({}, {ETL: {"streams"}}, {}, {ETL: {"streams": None}}),
        (
            {ETL: {"groups": 1.0}, USERS: {"streams": 3.0}},
            {ETL: {"streams", "groups"}, GROUPS: {"record_rate"}},
            {ETL: {"groups": 1.0, "connections": 5.0}},
            {ETL: {"streams": None}, USERS: {"streams": 3.0}, GROUPS: {"record_rate": None}},
        ),
    ],
)
def test_only_what_is_listed_or_was_made_changes_quo_16(wanted, made, stored, change):
    made = {entity: frozenset(names) for entity, names in made.items()}
    assert quota_change(wanted, made, lambda entity: stored.get(entity, {})) == change


def test_what_a_share_user_names_is_not_the_clusters_quo_16():
    def user(cluster, principal, made="2026-01-01T00:00:00Z", going=None, **quotas):
        meta = {"name": "u", "creationTimestamp": made, **(going or {})}
        spec = {"clusterRef": {"name": cluster}, "principal": principal, "quotas": quotas}
        return {"metadata": meta, "spec": spec}

    going = {"deletionTimestamp": "2026-03-01T00:00:00Z"}
    users = [
        user("main", "User:etl", "2026-02-01T00:00:00Z", streams=1),  # PrincipalTaken
        user("main", "User:etl", "2025-01-01T00:00:00Z", going, groups=1),
        user("main", "User:etl", producerByteRate=1),
        user("main", "User:idle"),
        user("main", "User:going", going=going, streams=1),
        user("other", "User:web", streams=1),
    ]
    claimed = of_users("main", users)
    assert claimed == {ETL: {"producer_byte_rate"}}
    wanted = {ETL: {"producer_byte_rate": 5.0, "streams": 2.0}, USERS: {"streams": 3.0}}
    assert unclaimed(wanted, claimed) == {ETL: {"streams": 2.0}, USERS: {"streams": 3.0}}
    assert unclaimed({ETL: {"producer_byte_rate": 5.0}}, claimed) == {}


class Quotas:
    """The stored quotas of the cluster of a land, as somebody sets and sees them by hand."""

    def __init__(self, land):
        self.land = land

    async def alter(self, entity, **values):
        async with connect(addresses(self.land)).async_admin() as admin:
            assert await admin.alter_client_quotas({entity: values}) == {entity: None}

    async def become(self, wanted):
        async def are():
            async with connect(addresses(self.land)).async_admin() as admin:
                return await admin.describe_client_quotas() == wanted

        await self.land.until(are, wanted)

    async def listed(self, **quotas):
        await self.land.kube.patch("ShareCluster", "main", {"spec": {"quotas": quotas}})

    async def condition(self, wanted, reason):
        return await self.land.condition("ShareCluster", "main", wanted, reason, "QuotasInForce")


@pytest.mark.integration
@pytest.mark.timeout(180)
async def test_the_operator_keeps_what_is_listed_and_nothing_else_quo_16(land):
    process = await land.start_operator()
    etl = {"principal": "User:etl", "producerByteRate": 5_000_000}
    await land.cluster(quotas={"userDefault": {"streams": 10}, "users": [etl]})
    quotas = Quotas(land)
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    await quotas.condition("True", "QuotasSet")
    made = {USERS: {"streams": 10.0}, ETL: {"producer_byte_rate": 5_000_000.0}}
    await quotas.become(made)

    # A ShareUser's value goes before; without the object the listed one is back.
    spec = {"clusterRef": {"name": "main"}, "principal": "User:etl"}
    await land.apply("ShareUser", "etl", {**spec, "quotas": {"producerByteRate": 9, "groups": 4}})
    await land.condition("ShareUser", "etl", "True", "InSync")

    async def is_handed_over():
        status = (await land.kube.get("ShareCluster", "main"))["status"]
        return [each.get("entityName") for each in status["quotas"]] == [None]

    await land.until(is_handed_over)
    await quotas.become({USERS: made[USERS], ETL: {"producer_byte_rate": 9.0, "groups": 4.0}})
    await land.kube.delete("ShareUser", "etl")
    await quotas.become(made)

    # By hand: another quota of a listed principal, one of somebody else, a listed one changed.
    await quotas.alter(BILLING, record_rate=7)
    await quotas.alter(ETL, streams=3, producer_byte_rate=1)
    by_hand = {ETL: {"streams": 3.0}, BILLING: {"record_rate": 7.0}}
    await quotas.become({**by_hand, USERS: made[USERS], ETL: made[ETL] | by_hand[ETL]})

    # While the operator is away one is taken out; the next operator knows whose it was.
    await land.stop_operator(process)
    await quotas.listed(users=None)
    await land.start_operator("op-1")
    await quotas.become({USERS: made[USERS], **by_hand})

    # One that is refused leaves the others, and is said in words.
    wrong = {"principal": "User:*", "streams": 1}
    await quotas.listed(users=[wrong], groups=[{"groupId": "billing", "recordRate": 9}])
    said = await quotas.condition("False", "QuotasRefused")
    assert "user User:*:" in said["message"]
    assert "give the default of users" in said["message"]
    assert any("User:*" in each for each in await land.events("QuotasRefused"))
    await quotas.become({USERS: made[USERS], **by_hand, BILLING: {"record_rate": 9.0}})

    # A paused cluster changes nothing; then what was listed goes, and what was not stays.
    def pause(value):
        annotations = {"sharemesh.io/pause-reconciliation": value}
        return land.kube.patch("ShareCluster", "main", {"metadata": {"annotations": annotations}})

    await pause("true")
    await quotas.listed(userDefault=None, users=None, groups=None)
    await quotas.condition("False", "QuotasPending")
    await pause(None)
    await quotas.become({ETL: by_hand[ETL]})

    async def says_nothing_more():
        status = (await land.kube.get("ShareCluster", "main"))["status"]
        kinds = [each["type"] for each in status["conditions"]]
        return "quotas" not in status and "QuotasInForce" not in kinds

    await land.until(says_nothing_more)
