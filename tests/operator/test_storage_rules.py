"""What a real API server takes of `spec.storage`, and what of it may change (rules in CEL)."""

import copy

import pytest

from sharemesh_operator.cluster.kube import KubeError
from tests.operator.api_worlds import real_world

pytestmark = pytest.mark.cluster

SERVERS = ["kafka-0.kafka:9092", "10.0.0.1:9092", "[fd00::1]:9092"]
IMMUTABLE = "storage is immutable: data does not move by itself"


@pytest.fixture
async def world():
    async with real_world() as found:
        yield found


def cluster(storage, name="main", **spec):
    return {
        "apiVersion": "sharemesh.io/v1alpha1",
        "kind": "ShareCluster",
        "metadata": {"name": name},
        "spec": {"etcd": {"endpoints": ["http://e:2379"]}, "storage": storage, **spec},
    }


def kafka(generations=None, **block):
    storage = {"type": "Kafka", "kafka": {"bootstrapServers": SERVERS, **block}}
    return storage | ({} if generations is None else {"generations": generations})


def login(kind, **more):
    return {"authentication": {"type": kind, **more}}


TAKEN = {
    "defaults": kafka(),
    "one replica": kafka(singleReplica=True),
    "one replica in full": kafka(replicationFactor=1, minInsyncReplicas=1, singleReplica=True),
    "patterns": kafka(topics=["orders*", "!orders.dlq", "?"]),
    "public authorities": kafka(tls={}),
    "KafkaUser by certificate": kafka(
        tls={"caSecretName": "ca"}, **login("Tls", secretName="user")
    ),
    "certificate of cert-manager": kafka(
        tls={"caSecretName": "ca", "certificateSecretName": "cert"}, **login("Tls")
    ),
    "KafkaUser by password": kafka(tls={}, **login("ScramSha512", secretName="user")),
    "password without TLS": kafka(**login("ScramSha256", secretName="s", username="u")),
    "password as it is over TLS": kafka(tls={}, **login("Plain", secretName="s")),
    "token": kafka(tls={}, **login("OAuthBearer", secretName="s", tokenKey="t")),
    "generations in a claim": kafka(generations={"claimName": "g"}),
    "generations in S3": kafka(generations={"uri": "s3://bucket/mesh?region=eu-central-1"}),
    "generations in Google's store": kafka(generations={"uri": "gs://bucket"}),
    "a shared claim": {"type": "Shared", "claimName": "data"},
    "a single node": {"type": "SingleNode", "node": "one", "hostPath": "/data"},
}
REFUSED = {
    "no block": ({"type": "Kafka"}, "Kafka storage needs kafka"),
    "no servers": (kafka(bootstrapServers=[]), "should have at least 1 items"),
    "ten servers": (
        kafka(bootstrapServers=[f"b{n}:9092" for n in range(10)]),
        "must have at most 9 items",
    ),
    "a server without port": (kafka(bootstrapServers=["kafka"]), "should match"),
    "a URL": (kafka(bootstrapServers=["https://kafka:9092"]), "should match"),
    "more in sync than there are": (
        kafka(replicationFactor=2, minInsyncReplicas=3),
        "minInsyncReplicas cannot exceed",
    ),
    "one replica by accident": (
        kafka(replicationFactor=1, minInsyncReplicas=1),
        "if that is meant, set singleReplica",
    ),
    "one replica of four": (
        kafka(replicationFactor=4, singleReplica=True),
        "singleReplica means one copy",
    ),
    "no pattern": (kafka(topics=["a b"]), "should match"),
    "certificate without TLS": (kafka(**login("Tls", secretName="u")), "Tls needs tls"),
    "no certificate": (kafka(tls={}, **login("Tls")), "Tls needs tls"),
    "two certificates": (
        kafka(tls={"certificateSecretName": "c"}, **login("Tls", secretName="u")),
        "either authentication.secretName or tls.certificateSecretName",
    ),
    "no password": (kafka(tls={}, **login("ScramSha512")), "needs secretName"),
    "a Secret for nothing": (kafka(**login("None", secretName="u")), "say which type"),
    "a user for a token": (
        kafka(tls={}, **login("OAuthBearer", secretName="s", username="u")),
        "username belongs to",
    ),
    "password as it is in plain text": (
        kafka(**login("Plain", secretName="s")),
        "Plain needs tls",
    ),
    "a claim beside Kafka": (kafka() | {"claimName": "c"}, "claimName belongs to Shared"),
    "a node beside Kafka": (
        kafka() | {"node": "n", "hostPath": "/p"},
        "node and hostPath to SingleNode",
    ),
    "Kafka beside a claim": (
        {**kafka(), "type": "Shared", "claimName": "c"},
        "kafka and generations belong to Kafka storage",
    ),
    "generations in two places": (
        kafka(generations={"claimName": "g", "uri": "s3://b/m"}),
        "one of both",
    ),
    "generations nowhere": (kafka(generations={}), "one of both"),
    "generations of another kind": (kafka(generations={"uri": "hdfs://b/m"}), "should match"),
    "generations on a disk": (kafka(generations={"uri": "file:///data"}), "should match"),
    "a login in a URI": (kafka(generations={"uri": "s3://key:secret@b/m"}), "should match"),
    "no claim": ({"type": "Shared"}, "Shared storage needs claimName"),
    "no node": ({"type": "SingleNode", "hostPath": "/p"}, "SingleNode storage needs node"),
}
CHANGES = {
    "other servers": ({"kafka": {"bootstrapServers": ["b:1"]}}, ""),
    "TLS": ({"kafka": {"tls": {"caSecretName": "ca"}}}, ""),
    "another user": (
        {"kafka": {"tls": {}, "authentication": {"type": "Plain", "secretName": "u"}}},
        "",
    ),
    "replicas": ({"kafka": {"replicationFactor": 4}}, "replicationFactor is immutable"),
    "in sync": ({"kafka": {"minInsyncReplicas": 3}}, "minInsyncReplicas is immutable"),
    "prefix": ({"kafka": {"topicPrefix": "q-"}}, "topicPrefix is immutable"),
    "no prefix": ({"kafka": {"topicPrefix": None}}, "kafka is immutable but for"),
    "topics": ({"kafka": {"topics": ["b*"]}}, "topics is immutable"),
    "a client id": ({"kafka": {"clientId": "c"}}, "kafka is immutable but for"),
    "managed topics": ({"kafka": {"manageTopics": True}}, "manageTopics is immutable"),
    "generations": ({"generations": {"claimName": "g"}}, IMMUTABLE),
    "generations in a store": ({"generations": {"uri": "s3://b/m"}}, IMMUTABLE),
    "another type": ({"type": "Shared", "claimName": "c", "kafka": None}, IMMUTABLE),
}
DRY = {"dryRun": "All"}
PATH = "/apis/sharemesh.io/v1alpha1/namespaces/{ns}/shareclusters"
MERGE = {"Content-Type": "application/merge-patch+json"}


async def refusal(world, method, path, body, **more):
    """Try it without doing it; return why not."""
    async with world.call(method, path, params=DRY, json=body, **more) as answer:
        return "" if answer.status < 300 else (await answer.json())["message"]


@pytest.mark.parametrize("case", TAKEN)
async def test_storage_that_is_whole_is_taken(world, case):
    assert await refusal(world, "POST", PATH, cluster(TAKEN[case])) == ""


@pytest.mark.parametrize("case", REFUSED)
async def test_storage_that_does_not_fit_together_is_refused_in_words(world, case):
    storage, words = REFUSED[case]
    assert words in await refusal(world, "POST", PATH, cluster(storage))


async def test_audit_logs_have_a_place_on_kafka_storage_and_bounds(world):
    for number, destination in enumerate(("File", "Stdout", "None")):
        body = cluster(kafka(), f"m{number}", audit={"destination": destination, "files": 100})
        assert await refusal(world, "POST", PATH, body) == ""
    for bound in ({"files": 0}, {"files": 101}, {"fileBytes": 65_535}, {"fileBytes": 1 << 31}):
        assert "should be" in await refusal(world, "POST", PATH, cluster(kafka(), audit=bound))


@pytest.fixture
async def made(world):
    return await world.kube.create(cluster(kafka(topicPrefix="p-", topics=["a*"]), "kept"))


@pytest.mark.parametrize("case", CHANGES)
async def test_only_servers_tls_and_authentication_change(world, made, case):
    change, words = CHANGES[case]
    path = f"{PATH}/{made['metadata']['name']}"
    said = await refusal(world, "PATCH", path, {"spec": {"storage": change}}, headers=MERGE)
    assert (words in said) if words else (said == "")


async def test_the_shipped_values_are_filled_in(world, made):
    block = copy.deepcopy(made["spec"]["storage"]["kafka"])
    assert block["replicationFactor"] == 3
    assert block["minInsyncReplicas"] == 2
    assert block["singleReplica"] is block["manageTopics"] is False
    assert block["authentication"] == {
        "type": "None",
        "passwordKey": "password",
        "tokenKey": "token",
    }
    with pytest.raises(KubeError):
        await world.kube.create(cluster({"type": "Local"}, "other"))
