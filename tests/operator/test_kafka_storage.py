"""Kafka storage: pods without data volumes, settings and Secrets from the spec, problems told."""

from dataclasses import replace
from pathlib import Path

import pytest

from sharemesh.client.admin_results import PartitionDescription, TopicDescription
from sharemesh.client.errors import UnknownTopicOrPartitionError
from sharemesh.ports.cluster import Role
from sharemesh.serve.exit_codes import ExitCode
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.settings.sources import ConfigFile, serve_settings
from sharemesh_operator.cluster.topic_reconciler import TopicReconciler
from sharemesh_operator.resources.cluster_status import conditions, ready, storage_problem
from sharemesh_operator.resources.kafka_problems import kafka_problem
from sharemesh_operator.resources.rollout import pod_seen
from sharemesh_operator.resources.topics import TopicChange, TopicFound, change_of
from tests.operator.bodies import spec_of, topic
from tests.operator.test_status import found, pod
from tests.operator.test_workloads import config, objects
from tests.operator.test_workloads import pod as pod_spec

SERVERS = ["kafka-kafka-bootstrap.kafka.svc:9093"]
ROLES = ("share-leader", "group-coordinator", "share-coordinator")


def storage(generations=None, **kafka):
    block = {"type": "Kafka", "kafka": {"bootstrapServers": SERVERS, **kafka}}
    return {"storage": block | ({"generations": generations} if generations else {})}


def kafka_config(**kafka):
    return {name: value for name, value in config(storage(**kafka)).items() if "kafka_" in name}


def names(volumes):
    return [each["name"] for each in volumes]


@pytest.mark.parametrize("role", ROLES)
def test_pods_have_no_data_volume_and_run_on_any_node(role):
    spec = pod_spec(storage(), role)
    assert names(spec["volumes"]) == ["tmp", "config"]
    assert names(spec["containers"][0]["volumeMounts"]) == ["tmp", "config"]
    assert "nodeSelector" not in spec
    assert "fsGroup" not in spec["securityContext"]


def test_aud_7_audit_files_of_pods_without_a_data_volume_have_one_of_their_own_with_a_bound():
    given = {**storage(), "audit": {"destination": "File", "fileBytes": 1_048_576, "files": 3}}
    found = config(given)
    assert (found["audit_log"], found["audit_directory"]) == ("file", "/audit/log")
    settings = serve_settings(
        {name: found[name] for name in found if name.startswith("audit")}, {}, ConfigFile()
    )
    assert (settings.audit_file_bytes, settings.audit_files) == (1_048_576, 3)
    for role in ROLES:
        spec = pod_spec(given, role)
        assert names(spec["volumes"]) == ["tmp", "config", "audit"]
        assert names(spec["containers"][0]["volumeMounts"]) == ["tmp", "config", "audit"]
        size = int(spec["volumes"][2]["emptyDir"]["sizeLimit"])
        assert 2 * 3 * 1_048_576 < size <= 2 * 3 * 1_048_576 + 8 * 1_048_576
    shipped = pod_spec({**storage(), "audit": {"destination": "File"}})["volumes"][2]["emptyDir"]
    bound = 2 * ServeSettings().audit_files * ServeSettings().audit_file_bytes
    assert bound < int(shipped["sizeLimit"]) <= bound + 8 * 1_048_576
    assert "audit_file_bytes" not in config({**storage(), "audit": {"destination": "File"}})
    for other in ("Stdout", "None"):
        spec = pod_spec({**storage(), "audit": {"destination": other}})
        assert names(spec["volumes"]) == ["tmp", "config"]


def test_the_embedded_engine_has_its_volume_and_nothing_of_kafka():
    spec = pod_spec()
    assert names(spec["volumes"]) == ["data", "tmp", "config"]
    assert spec["securityContext"]["fsGroup"] == 10001
    assert "terminationMessagePolicy" not in spec["containers"][0]
    assert config()["data_directory"] == "/data"
    filed = {"audit": {"destination": "File", "files": 3}}
    assert names(pod_spec(filed)["volumes"]) == ["data", "tmp", "config"], "logs/ of the data"
    assert "audit_directory" not in config(filed)
    assert config(filed)["audit_files"] == 3
    assert not [name for name in config() if "kafka" in name or name == "storage"]


def test_what_is_not_said_is_left_to_the_process_or_has_the_shipped_value():
    assert kafka_config() == {
        "kafka_bootstrap_servers": SERVERS,
        "kafka_security": "plaintext",
        "kafka_replication_factor": 3,
        "kafka_min_insync_replicas": 2,
        "kafka_single_replica": False,
        "kafka_manage_topics": False,
    }
    whole = config(storage())
    assert whole["storage"] == "kafka"
    assert "data_directory" not in whole
    assert whole["audit_log"] == "stdout", "there is no volume for files"


def test_names_topics_and_replicas_are_handed_on():
    given = {
        "topicPrefix": "mesh-",
        "topics": ["orders*", "billing"],
        "clientId": "warp,az=1",
        "manageTopics": True,
        "replicationFactor": 1,
        "minInsyncReplicas": 1,
        "singleReplica": True,
    }
    found = kafka_config(**given)
    assert found["kafka_topic_prefix"] == "mesh-"
    assert found["kafka_topics"] == ["orders*", "billing"]
    assert found["kafka_client_id"] == "warp,az=1"
    assert found["kafka_manage_topics"] is True
    assert found["kafka_replication_factor"] == found["kafka_min_insync_replicas"] == 1
    assert found["kafka_single_replica"] is True


CA = {"caSecretName": "kafka-cluster-ca-cert"}
CA_FILE = {"kafka_tls_authority": "/etc/sharemesh/kafka/kafka-cluster-ca-cert/ca.crt"}
USER = "/etc/sharemesh/kafka/mesh"


@pytest.mark.parametrize(
    ("given", "settings", "secrets"),
    [
        ({"tls": {}}, {"kafka_security": "tls"}, []),
        ({"tls": CA}, {"kafka_security": "tls", **CA_FILE}, ["kafka-ca"]),
        (
            {"tls": CA, "authentication": {"type": "Tls", "secretName": "mesh"}},
            {
                "kafka_security": "tls",
                **CA_FILE,
                "kafka_tls_certificate": f"{USER}/user.crt",
                "kafka_tls_key": f"{USER}/user.key",
            },
            ["kafka-user", "kafka-ca"],
        ),
        (
            {
                "tls": {**CA, "certificateSecretName": "cert"},
                "authentication": {"type": "Tls"},
            },
            {
                "kafka_security": "tls",
                **CA_FILE,
                "kafka_tls_certificate": "/etc/sharemesh/kafka/cert/tls.crt",
                "kafka_tls_key": "/etc/sharemesh/kafka/cert/tls.key",
            },
            ["kafka-ca", "kafka-certificate"],
        ),
        (
            {"tls": CA, "authentication": {"type": "ScramSha512", "secretName": "mesh"}},
            {
                "kafka_security": "sasl_tls",
                **CA_FILE,
                "kafka_sasl_mechanism": "SCRAM-SHA-512",
                "kafka_sasl_username": "mesh",
                "kafka_sasl_password_file": f"{USER}/password",
            },
            ["kafka-user", "kafka-ca"],
        ),
        (
            {
                "authentication": {
                    "type": "ScramSha256",
                    "secretName": "mesh",
                    "username": "jane",
                    "passwordKey": "pw",
                }
            },
            {
                "kafka_security": "sasl_plaintext",
                "kafka_sasl_mechanism": "SCRAM-SHA-256",
                "kafka_sasl_username": "jane",
                "kafka_sasl_password_file": f"{USER}/pw",
            },
            ["kafka-user"],
        ),
        (
            {"tls": {}, "authentication": {"type": "OAuthBearer", "secretName": "mesh"}},
            {
                "kafka_security": "sasl_tls",
                "kafka_sasl_mechanism": "OAUTHBEARER",
                "kafka_oauth_token_file": f"{USER}/token",
            },
            ["kafka-user"],
        ),
    ],
)
def test_secrets_are_mounted_and_their_files_are_the_settings(given, settings, secrets):
    plain = kafka_config()
    assert kafka_config(**given) == plain | settings
    spec = pod_spec(storage(**given))
    mounted = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    volumes = [each for each in spec["volumes"] if "secret" in each]
    assert names(volumes) == secrets
    for each in volumes:
        assert mounted[each["name"]] == f"/etc/sharemesh/kafka/{each['secret']['secretName']}"
        assert each["secret"]["defaultMode"] == 0o444, "without fsGroup they are root's"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"singleReplica": True, "topics": ["orders*", "!orders.dlq"], "topicPrefix": "mesh-"},
        {"tls": CA, "authentication": {"type": "Tls", "secretName": "mesh"}, "clientId": "warp"},
        {"tls": CA, "authentication": {"type": "ScramSha256", "secretName": "mesh"}},
        {"tls": {}, "authentication": {"type": "Plain", "secretName": "mesh", "username": "u"}},
        {"tls": {}, "authentication": {"type": "OAuthBearer", "secretName": "mesh"}},
    ],
)
def test_processes_take_the_settings(given):
    whole = storage(generations={"claimName": "generations"}, **given)
    flags = {"role": "share-leader", "advertised_host": "pod"}
    found = serve_settings(flags, {}, ConfigFile(config(whole)))
    assert found.on_kafka
    assert found.generations == "/generations"
    if given.get("authentication", {}).get("type") == "ScramSha256":
        assert found.kafka_sasl_username == "mesh"
        assert found.kafka_tls_authority == Path(CA_FILE["kafka_tls_authority"])
    assert found.own_topic_prefix == given.get("topicPrefix", "__sharemesh-queues.main-")


def test_one_secret_for_ca_and_user_is_mounted_once():
    given = {"tls": {"caSecretName": "all"}}
    given["authentication"] = {"type": "ScramSha512", "secretName": "all"}
    volumes = [each for each in pod_spec(storage(**given))["volumes"] if "secret" in each]
    assert [each["secret"]["secretName"] for each in volumes] == ["all"]


def test_generations_are_a_claim_of_share_coordinators():
    claimed = storage(generations={"claimName": "generations"})
    assert config(claimed)["generations"] == "/generations"
    spec = pod_spec(claimed, "share-coordinator")
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": "generations"}
    assert spec["containers"][0]["volumeMounts"][0]["readOnly"]
    assert spec["securityContext"]["fsGroup"] == 10001
    for role in ROLES[:2]:
        assert "generations" not in names(pod_spec(claimed, role)["volumes"])
    assert "generations" not in config(storage())


URI = "s3://analytics/mesh?region=eu-central-1"


@pytest.mark.parametrize("role", ROLES)
def test_generations_in_an_object_store_need_no_volume(role):
    stored = storage(generations={"uri": URI})
    assert config(stored)["generations"] == URI
    spec = pod_spec(stored, role)
    assert names(spec["volumes"]) == ["tmp", "config"]
    assert "fsGroup" not in spec["securityContext"]
    assert storage_problem(spec_of(stored), None) is None
    flags = {"role": role, "advertised_host": "pod"}
    assert serve_settings(flags, {}, ConfigFile(config(stored))).generations == URI


def test_a_login_for_the_object_store_comes_by_the_pod_template():
    key = {"valueFrom": {"secretKeyRef": {"name": "store", "key": "key"}}}
    mine = {"name": "AWS_ACCESS_KEY_ID", **key}
    template = {"spec": {"containers": [{"name": "sharemesh", "env": [mine]}]}}
    given = {
        **storage(generations={"uri": URI}),
        "shareCoordinators": {"podTemplate": template},
    }
    spec = pod_spec(given, "share-coordinator")
    assert mine in spec["containers"][0]["env"]
    assert len(spec["containers"][0]["env"]) > 1, "what the operator sets stays"


def test_a_claim_for_generations_is_looked_at_as_that_of_data():
    spec = spec_of(storage(generations={"claimName": "generations"}))
    assert storage_problem(spec, None).reason == "ClaimNotFound"
    one_node = {"spec": {"accessModes": ["ReadWriteOnce"]}}
    problem = storage_problem(spec, one_node)
    assert problem.reason == "StorageNotShared"
    assert "generations" in problem.message
    assert storage_problem(spec, {"spec": {"accessModes": ["ReadWriteMany"]}}) is None


def container(code, state="terminated", message="", **more):
    ended = {"terminated": {"exitCode": code, "message": message}}
    now = ended if state == "terminated" else {state: {}}
    last = {} if state == "terminated" else ended
    return {"name": "sharemesh", "state": now, "lastState": last, **more}


def ended_pod(*containers):
    return pod_seen(pod(status={"containerStatuses": list(containers)}), {}, now_s=0)


LOG = """{"event": "starting"}
sharemesh: broker kafka-0:9093 refuses user mesh: wrong password
{"event": "guard ends"}
"""


@pytest.mark.parametrize("state", ["terminated", "waiting", "running"])
def test_how_a_process_ended_is_known_until_the_next_one_is_ready(state):
    seen = ended_pod(container(9, state, LOG))
    assert seen.exit_code == 9
    assert seen.last_words == "broker kafka-0:9093 refuses user mesh: wrong password"


def test_only_the_container_of_the_role_counts_and_silence_is_no_sentence():
    assert ended_pod(container(9) | {"name": "sidecar"}).exit_code == 0
    assert ended_pod(container(9, message="killed")).last_words == ""
    assert ended_pod().exit_code == 0


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ExitCode.STORAGE_UNREACHABLE, "KafkaUnreachable"),
        (ExitCode.STORAGE_LOGIN_REFUSED, "AuthenticationFailed"),
        (ExitCode.STORAGE_MISCONFIGURED, "TopicsMisconfigured"),
        (ExitCode.STORAGE_TOO_FEW_REPLICAS, "TooFewReplicas"),
        (ExitCode.OTHER_CLUSTER, "ClusterIdChanged"),
        (ExitCode.STORAGE_TAKEN, "TopicsTaken"),
    ],
)
def test_each_exit_code_of_the_storage_has_its_reason(code, reason):
    problem = kafka_problem([ended_pod(container(code))])
    assert problem.reason == reason
    assert problem.message.startswith("main-share-leader-12: ")
    said = kafka_problem([ended_pod(container(code, message="sharemesh: as it is"))])
    assert said.message.startswith("main-share-leader-12: as it is")


def test_topics_of_another_cluster_are_told_with_what_can_be_changed_here():
    problem = kafka_problem([ended_pod(container(ExitCode.STORAGE_TAKEN, message="sharemesh: no"))])
    assert problem.message == (
        "main-share-leader-12: no; kafka.topicPrefix of a ShareCluster cannot be changed: "
        "delete it, and make it again with another one"
    )


def test_other_ends_and_pods_that_are_ready_again_are_no_problem_of_the_storage():
    assert kafka_problem([ended_pod(container(ExitCode.COORDINATION_UNREACHABLE))]) is None
    again = replace(ended_pod(container(ExitCode.STORAGE_UNREACHABLE, "running")), ready=True)
    assert kafka_problem([again]) is None


def test_of_two_reasons_the_one_that_more_is_known_of():
    unreachable = ended_pod(container(ExitCode.STORAGE_UNREACHABLE))
    refused = ended_pod(container(ExitCode.STORAGE_LOGIN_REFUSED))
    assert kafka_problem([unreachable, refused]).reason == "AuthenticationFailed"
    assert kafka_problem([refused, unreachable]).reason == "AuthenticationFailed"


def storage_ready(spec, whole):
    return next(each for each in conditions(spec, whole) if each.kind == "StorageReady")


def test_the_storage_is_ready_when_a_pod_is_and_unknown_before():
    spec = spec_of(storage())
    whole = found(spec)
    said = storage_ready(spec, whole)
    assert (said.status, said.reason) == (True, "KafkaCluster")
    assert SERVERS[0] in said.message
    away = replace(whole.seen, pods=tuple(replace(p, ready=False) for p in whole.seen.pods))
    assert storage_ready(spec, replace(whole, seen=away)).status is None


def test_a_problem_of_the_storage_is_that_of_the_cluster():
    spec = spec_of(storage())
    problem = kafka_problem([ended_pod(container(ExitCode.OTHER_CLUSTER))])
    whole = replace(found(spec), storage_problem=problem)
    assert storage_ready(spec, whole).reason == "ClusterIdChanged"
    assert (ready(spec, whole).status, ready(spec, whole).reason) == (False, "ClusterIdChanged")


def test_pods_restart_when_brokers_change_and_not_when_a_secret_is_written_anew():
    before = config(storage())
    assert config(storage()) == before
    assert config({"storage": storage()["storage"] | {"kafka": {"bootstrapServers": ["b:1"]}}}) != (
        before
    )


def test_the_workloads_are_those_of_the_embedded_engine():
    """Stable names are node ids; Services and hand-over depend on them."""
    assert objects(storage()).keys() == objects().keys()
    assert set(spec_of(storage()).roles) == set(Role) - {Role.CONTROLLER}


THEIRS = {"retention.ms": "123", "retention.bytes": "456"}


def test_a_topic_is_adopted_and_only_what_the_object_names_is_changed():
    found_topic = TopicFound("id", 4, 4, THEIRS)
    assert change_of(topic(), found_topic, adopts=True) == TopicChange()
    named = topic({"retentionSeconds": 60})
    assert change_of(named, found_topic, adopts=True).configs == {"retention.ms": "60000"}
    sized = topic({"retentionBytes": 1_048_576})
    assert change_of(sized, found_topic, adopts=True).configs == {"retention.bytes": "1048576"}
    assert change_of(topic(), None, adopts=True) == TopicChange(create=True, partitions=4)


def test_the_embedded_engine_keeps_seven_days_where_the_object_says_nothing():
    assert "retentionSeconds" not in topic()["spec"]
    assert change_of(topic(), None).configs == {"retention.ms": "604800000"}


class Admin:
    """A mesh whose topics are those of a Kafka cluster."""

    def __init__(self, **topics):
        self.kafka = topics
        self.attached = []
        self.done = []

    async def describe_topics(self, names):
        if names[0] not in self.attached:
            return {}
        count = self.kafka[names[0]]
        parts = tuple(PartitionDescription(number, "leader", 1, ()) for number in range(count))
        return {names[0]: TopicDescription(names[0], "id", parts, dict(THEIRS))}

    async def attach_topics(self, names):
        if names[0] not in self.kafka:
            return {names[0]: UnknownTopicOrPartitionError("no such topic")}
        self.attached += names
        return {names[0]: None}

    async def create_topic(self, name, partitions, configs):
        self.done.append(("create", name, partitions, configs))
        self.kafka[name] = partitions
        self.attached.append(name)

    async def alter_configs(self, configs, name):
        self.done.append(("alter", name, configs))

    async def add_partitions(self, name, total):
        self.done.append(("grow", name, total))

    async def delete_topics(self, names):
        self.done.append(("delete", *names))
        return {}


class Homed(TopicReconciler):
    """A reconciler whose objects all belong to one cluster."""

    def __init__(self, spec, admin):
        self.spec, self.mesh, self._events = spec, self, self
        self._admin = admin
        self.told = []

    async def _home(self, body):
        return self

    async def _rival(self, body):
        return ""

    async def admin(self):
        return self._admin

    async def tell(self, body, reason, message, **more):
        self.told.append(reason)


async def brought(admin, body, **block):
    homed = Homed(spec_of(storage(**block)), admin)
    outcome = await homed.bring(homed, body)
    return outcome.conditions[0], homed.told


async def test_a_topic_that_is_there_is_attached_and_left_as_it_is():
    admin = Admin(orders=4)
    said, told = await brought(admin, topic())
    assert (said.status, said.reason) == (True, "InSync")
    assert (admin.attached, admin.done, told) == (["orders"], [], ["TopicAttached"])
    said, told = await brought(admin, topic())
    assert (admin.attached, told) == (["orders"], []), "once is enough"


async def test_a_topic_that_kafka_does_not_have_is_made_only_where_topics_are_managed():
    said, told = await brought(Admin(), topic())
    assert (said.status, said.reason, told) == (False, "NotInKafka", [])
    assert "no topic 'orders'" in said.message
    admin = Admin()
    said, told = await brought(admin, topic(), manageTopics=True)
    assert admin.done == [("create", "orders", 4, {})]
    assert (said.status, told) == (True, ["TopicCreated"])


async def test_what_the_object_names_is_changed_and_nothing_else():
    admin = Admin(orders=2)
    await brought(admin, topic({"retentionSeconds": 60}), manageTopics=True)
    wanted = [("alter", "orders", {"retention.ms": "60000"}), ("grow", "orders", 4)]
    assert admin.done == wanted


async def test_nothing_is_attached_for_an_object_that_is_paused():
    paused = topic(annotations={"sharemesh.io/pause-reconciliation": "true"})
    admin = Admin(orders=4)
    said, _ = await brought(admin, paused)
    assert (said.reason, admin.attached) == ("NotCreated", [])


async def test_an_object_that_goes_leaves_the_topic_to_kafka():
    body = topic({"deletionPolicy": "Delete"})
    admin = Admin(orders=4)
    assert await Homed(spec_of(storage()), admin).finalize(body) == (
        "topic 'orders' is kept: topics of Kafka storage are deleted in Kafka"
    )
    assert admin.done == []
    said = await Homed(spec_of(), admin).finalize(body)
    assert said == "topic 'orders' and its records are deleted"
    assert admin.done == [("delete", "orders")]
