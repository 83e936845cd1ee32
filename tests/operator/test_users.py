"""ShareUsers: rules and quotas of a principal, kept as the object says (IDN-10 to IDN-13)."""

import asyncio
from random import Random

import pytest
import trustme

from sharemesh.client.acls import OPERATIONS, RESOURCE_TYPES, AclBinding, AclBindingFilter
from sharemesh.client.connect import connect
from sharemesh.client.errors import (
    ClusterAuthorizationFailedError,
    SecurityDisabledError,
    SharemeshError,
)
from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName
from sharemesh.telemetry.telemetry import without_export
from sharemesh_operator.cluster.engine import Engine
from sharemesh_operator.cluster.reconciler import ClusterRef
from sharemesh_operator.cluster.user_reconciler import UserReconciler
from sharemesh_operator.cluster.work_queue import Key
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.users import (
    UserChange,
    UserFound,
    fingerprint,
    made_with,
    user_change,
    user_condition,
    user_quotas,
    user_rules,
    user_status,
)
from sharemesh_operator.settings import OperatorSettings
from tests.clocks import ManualClock
from tests.operator.bodies import spec_of, user
from tests.operator.fake_apiserver.server import definitions
from tests.operator.rbac import allowed, asked
from tests.operator.sample_objects import addresses
from tests.rpc.certificates import issue, replace

READS = {"resourceType": "Topic", "name": "orders", "operations": ["Read", "Describe"]}
GROUP = {"resourceType": "Group", "name": "shop-", "patternType": "Prefixed", "operations": ["All"]}


def schema() -> KubeObject:
    found = next(each for each in definitions() if each["spec"]["names"]["kind"] == "ShareUser")
    version = found["spec"]["versions"][0]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def test_idn_10_the_schema_has_the_words_of_the_mesh() -> None:
    rule = schema()["acls"]["items"]["properties"]
    body = user(
        {
            "acls": [
                {
                    "resourceType": kind,
                    "name": "x",
                    "operations": rule["operations"]["items"]["enum"],
                }
                for kind in rule["resourceType"]["enum"]
            ],
            "quotas": dict.fromkeys(schema()["quotas"]["properties"], 1),
        }
    )
    rules = user_rules(body)
    assert {each.operation for each in rules} == set(OPERATIONS)
    assert {each.resource_type for each in rules} == set(RESOURCE_TYPES)
    of_users = {each.value for each in QuotaName if each.entity_type is EntityType.USER}
    assert user_quotas(body).keys() == of_users


def test_idn_10_each_rule_is_asked_for_once_with_its_defaults() -> None:
    cluster = {"resourceType": "Cluster", "operations": ["Alter"], "permission": "Deny"}
    rules = user_rules(user({"acls": [READS, READS, GROUP, cluster]}))
    assert [tuple(each) for each in rules] == [
        ("User:jane", "read", "topic", "orders", False, "allow"),
        ("User:jane", "describe", "topic", "orders", False, "allow"),
        ("User:jane", "all", "group", "shop-", True, "allow"),
        ("User:jane", "alter", "cluster", "kafka-cluster", False, "deny"),
    ]


def test_idn_11_what_others_made_is_not_taken_away_and_what_is_made_is_noted_before() -> None:
    read, describe, everything = user_rules(user({"acls": [READS, GROUP]}))
    theirs = read._replace(name="theirs")
    found = UserFound([read, theirs], {"streams": 5.0, "groups": 1.0})
    body = user({"acls": [READS, GROUP], "quotas": {"streams": 10}})
    change = user_change(body, found)
    assert change == UserChange((describe, everything), (), {"streams": 10.0})
    noted = made_with(body, change)
    assert noted == {
        "madeRules": sorted(map(fingerprint, (describe, everything))),
        "madeQuotas": ["streams"],
    }
    # Less is wanted: only what was made goes; read was there before.
    less = {**user(), "status": noted}
    there = UserFound([read, theirs, describe, everything], {"streams": 10.0, "groups": 1.0})
    gone = UserChange((), (describe, everything), {"streams": None})
    assert user_change(less, there) == gone
    assert user_change({**body, "status": noted}, there, gone=True) == gone
    assert user_status(less, UserFound([read, theirs]))["madeRules"] == []


def test_idn_14_what_the_object_names_is_set_back_and_other_quotas_are_left_alone() -> None:
    body = user({"quotas": {"streams": 10, "groups": 3}})
    body["status"] = {"madeQuotas": ["groups", "streams"]}
    by_hand = UserFound((), {"streams": 50.0, "connections": 4.0})  # groups is gone
    change = user_change(body, by_hand)
    assert change.quotas == {"streams": 10.0, "groups": 3.0}
    assert user_condition(body, by_hand, []).reason == "OutOfSync"
    # What is named no more goes, whatever its value is by then; what was never named stays.
    body["spec"]["quotas"] = {"groups": 3}
    assert user_change(body, by_hand).quotas == {"groups": 3.0, "streams": None}
    assert user_change(body, by_hand, gone=True).quotas == {"streams": None}


def test_idn_13_a_condition_says_what_is_missing_or_refused() -> None:
    body = user({"acls": [READS]})
    there = UserFound(user_rules(body))
    assert user_condition(body, there, []).status is True
    assert user_condition(body, UserFound(), []).reason == "OutOfSync"
    refused = user_condition(body, UserFound(), ["too many", "and so on"])
    assert (refused.reason, refused.message) == (
        "RulesRefused",
        "the cluster refuses: too many (and 1 more)",
    )


class Asked:
    """An admin client of a cluster without access rules; quotas may be refused too."""

    def __init__(self, quotas, refusal=None):
        self.quotas, self.refusal = quotas, refusal

    async def describe_acls(self, wanted):
        raise SecurityDisabledError("this cluster has no access rules")

    async def create_acls(self, bindings):
        assert not bindings, "they would be refused"
        return {}

    async def describe_client_quotas(self, entity):
        return {entity: dict(self.quotas)}

    async def alter_client_quotas(self, changes):
        ((entity, values),) = changes.items()
        if self.refusal is None:
            self.quotas = {name: value for name, value in values.items() if value is not None}
        return {entity: self.refusal}


class Kept:
    """An API server and what writes to it, which has one object and forgets what is written."""

    def __init__(self, body):
        self.body = body

    async def get(self, kind, name):
        return self.body

    async def patch(self, kind, name, patch, *, subresource=""):
        self.body["status"] = {**self.body["status"], **patch["status"]}

    async def tell(self, *args, **more):
        pass


def named(name, **spec):
    body = user(spec)
    body["metadata"]["name"] = name
    return body


def reconciler(body):
    kept = Kept(body)
    return UserReconciler(kept, None, None, kept, None, default_image="i:1")


async def test_idn_13_quotas_are_set_where_there_are_no_access_rules():
    body = user({"acls": [READS], "quotas": {"streams": 5}})
    body["status"] = {"madeRules": ["abc"]}
    admin = Asked({})

    class Mesh:
        async def admin(self):
            return admin

    home = ClusterRef(spec_of(), Mesh())
    outcome = await reconciler(body).bring(home, body)
    assert admin.quotas == {"streams": 5.0}
    (said,) = outcome.conditions
    assert (said.status, said.reason) == (False, "RulesRefused")
    assert "this cluster has no access rules" in said.message
    assert outcome.status["madeRules"] == ["abc"], "they may be there when rules are read again"
    assert outcome.status["madeQuotas"] == ["streams"]


async def test_idn_13_on_deletion_quotas_go_though_rules_cannot():
    body = user({"quotas": {"streams": 5}})
    body["status"] = {"madeRules": ["abc"], "madeQuotas": ["streams"]}
    admin = Asked({"streams": 5.0})
    with pytest.raises(SharemeshError, match="no access rules"):
        await reconciler(body).delete(admin, body)
    assert admin.quotas == {}
    admin.quotas = {"streams": 9.0}  # by a ShareCluster
    with pytest.raises(SharemeshError, match="no access rules"):
        await reconciler(body).delete(admin, body)
    assert admin.quotas == {"streams": 9.0}
    body["status"]["madeRules"] = []
    await reconciler(body).delete(admin, body)


async def test_idn_12_a_refused_removal_is_not_passed_over():
    body = user({"quotas": {"streams": 5}})
    body["status"] = {"madeRules": [], "madeQuotas": ["streams"]}
    admin = Asked({"streams": 5.0}, ClusterAuthorizationFailedError("no right"))
    with pytest.raises(SharemeshError, match="no right"):
        await reconciler(body).delete(admin, body)


async def test_idn_12_the_successor_looks_again_when_the_older_object_is_gone():
    settings = OperatorSettings(
        namespace="queues", identity="op-0", etcd_endpoints=("http://e",), image="i:1"
    )
    engine = Engine(None, settings, ManualClock(), Random(1), print, without_export(lambda: 0))
    younger = named("younger")
    for body in (user(), younger, named("lee", principal="User:lee")):
        engine.seen("ShareUser", body, gone=False)
    for name in ("jane", "younger", "lee"):
        engine.queue.drop(Key("ShareUser", name))
    engine.seen("ShareUser", user(), gone=True)
    assert Key("ShareUser", "younger") in engine.queue._due
    assert Key("ShareUser", "lee") not in engine.queue._due
    assert Key("ShareUser", "jane") not in engine.queue._due


class Rules:
    """A cluster with access rules, and the admin client of one of its super users."""

    def __init__(self, land) -> None:
        self._land = land
        self._files = land.directory / "secrets" / "mesh-tls"

    async def start(self, **spec) -> None:
        self._files.mkdir(parents=True)
        authority = trustme.CA()
        replace(self._files / "ca.crt", authority.cert_pem.bytes())
        issue(authority, self._files, "tls", "mesh")
        await self._land.start_operator()
        await self._land.cluster(
            tls={"secretName": "mesh-tls", "clientAuth": "Required"},
            authorization={"mode": "Acl", "superUsers": ["User:mesh"]},
            **spec,
        )
        await self._land.condition("ShareCluster", "main", "True", "AllLeadersServing")

    def admin(self):
        return connect(
            addresses(self._land),
            security_protocol="ssl",
            ssl_ca_location=str(self._files / "ca.crt"),
            ssl_certificate_location=str(self._files / "tls.crt"),
            ssl_key_location=str(self._files / "tls.key"),
        ).async_admin()

    async def of(self, principal: str) -> set[tuple[str, str]]:
        async with self.admin() as admin:
            found = await admin.describe_acls(AclBindingFilter(principal=principal))
        return {(each.operation, each.name) for each in found}

    async def quotas(self, principal: str) -> dict[str, float]:
        entity = QuotaEntity(EntityType.USER, principal)
        async with self.admin() as admin:
            return (await admin.describe_client_quotas(entity)).get(entity, {})


@pytest.mark.integration
@pytest.mark.timeout(240)
async def test_idn_10_to_12_rules_and_quotas_follow_the_object_and_go_with_it(land) -> None:
    rules = Rules(land)
    await rules.start()
    theirs = AclBinding("User:jane", "write", "topic", "theirs")
    async with rules.admin() as admin:
        await admin.create_acls([theirs])
    ref = {"clusterRef": {"name": "main"}}
    many = [
        {"resourceType": "Topic", "name": f"t{number}", "operations": ["Read", "Describe"]}
        for number in range(60)
    ]
    jane = {**ref, "principal": "User:jane", "acls": many, "quotas": {"streams": 7}}
    await land.apply("ShareUser", "jane", jane)
    said = await land.condition("ShareUser", "jane", "True", "InSync")
    assert said["message"] == "120 access rules and 1 quotas of User:jane are in force"
    assert len(await rules.of("User:jane")) == 121, "more than one request takes"
    assert await rules.quotas("User:jane") == {"streams": 7.0}
    assert await land.events("UserConfigured")

    # Altered by hand, a quota that is named comes back; one that is not named stays (IDN-14).
    entity = QuotaEntity(EntityType.USER, "User:jane")
    async with rules.admin() as admin:
        await admin.alter_client_quotas({entity: {"streams": 50, "groups": 5}})

    async def is_set_back():
        return await rules.quotas("User:jane") == {"streams": 7.0, "groups": 5.0}

    await land.kube.patch("ShareUser", "jane", {"metadata": {"annotations": {"looked": "at"}}})
    await land.until(is_set_back)
    async with rules.admin() as admin:
        await admin.alter_client_quotas({entity: {"groups": None}})

    # A second object for the same principal does nothing.
    await land.apply("ShareUser", "other", {**ref, "principal": "User:jane", "acls": [READS]})
    await land.condition("ShareUser", "other", "False", "PrincipalTaken")

    # What is wanted changes; what others made stays.
    await land.kube.patch("ShareUser", "jane", {"spec": {"acls": [READS], "quotas": None}})

    async def is_less():
        return await rules.of("User:jane") == {
            ("read", "orders"),
            ("describe", "orders"),
            ("write", "theirs"),
        }

    await land.until(is_less)
    await land.until(lambda: gone(rules.quotas("User:jane")))

    # Paused: nothing is changed, and it says so.
    pause = {"metadata": {"annotations": {"sharemesh.io/pause-reconciliation": "true"}}}
    await land.kube.patch("ShareUser", "jane", {**pause, "spec": {"acls": [READS, GROUP]}})
    await land.condition("ShareUser", "jane", "False", "OutOfSync")
    assert await is_less()

    await land.kube.delete("ShareUser", "jane")
    await land.until(lambda: gone(land.kube.get("ShareUser", "jane")))
    assert "user 'User:jane' and its access rules and quotas are deleted" in await land.events(
        "CleanedUp"
    )

    async def is_the_others():
        return await rules.of("User:jane") == {("read", "orders"), ("describe", "orders"),
                                               ("write", "theirs")}  # fmt: skip

    await land.until(is_the_others, "the younger object makes its rules")
    assert await land.condition("ShareUser", "other", "True", "InSync")

    # Retain: they stay.
    await land.kube.patch("ShareUser", "other", {"spec": {"deletionPolicy": "Retain"}})
    await land.kube.delete("ShareUser", "other")
    await land.until(lambda: gone(land.kube.get("ShareUser", "other")))
    assert await is_the_others()
    own = [(method, path) for method, path, agent in land.server.requests if agent != "test"]
    assert asked(own) - allowed() == set()


async def gone(found) -> bool:
    return not await found


@pytest.mark.integration
@pytest.mark.timeout(180)
async def test_idn_13_a_cluster_without_rules_refuses_in_words(land) -> None:
    await land.start_operator()
    await land.cluster()
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    ref = {"clusterRef": {"name": "main"}}
    await land.apply("ShareUser", "jane", {**ref, "principal": "User:jane", "acls": [READS]})
    said = await land.condition("ShareUser", "jane", "False", "RulesRefused")
    assert "this cluster has no access rules" in said["message"]
    await land.apply("ShareUser", "lee", {**ref, "principal": "User:lee", "quotas": {"streams": 3}})
    await land.condition("ShareUser", "lee", "True", "InSync")
    async with asyncio.timeout(40), connect(addresses(land)).async_admin() as admin:
        entity = QuotaEntity(EntityType.USER, "User:lee")
        assert await admin.describe_client_quotas(entity) == {entity: {"streams": 3.0}}
