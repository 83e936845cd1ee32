"""The operator mirrors topics of Kafka storage: it is where the elected controller runs."""

import random

import pytest

from sharemesh.cluster.store.storage_record import StorageRecord, store_storage
from sharemesh.cluster.wanted_topics import WantedTopics
from sharemesh.controller.placement_controller import PlacementController
from sharemesh.domain.attached_topics import AttachableTopics
from sharemesh.domain.ids import TopicId
from sharemesh.ports.cluster import Role
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh_operator.cluster.connection_error import ClusterConnectionError
from sharemesh_operator.cluster.kafka_mirror import open_mirror
from sharemesh_operator.resources.cluster_status import ClusterSeen, conditions, ready
from sharemesh_operator.resources.problems import problem
from sharemesh_operator.resources.rollout import plan
from tests.cluster.mesh import CLUSTER, Mesh, Node
from tests.controller.scripted_brokers import KAFKA_CLUSTER, ScriptedBrokers
from tests.operator.bodies import spec_of
from tests.operator.test_kafka_storage import storage
from tests.operator.test_rollout import seen

ONE = TopicId(b"1" * 16)
RECORD = StorageRecord(KAFKA_CLUSTER, "own-", TopicId(b"s" * 16), TopicId(b"g" * 16), 16, 16)


class SpecOfMesh:
    """A cluster's spec under the id that the mesh in memory has."""

    def __init__(self, spec):
        self.storage = spec.storage
        self.cluster_id = CLUSTER


class Operator(Node):
    """A controller as the operator runs it."""

    def __init__(self, mesh, secrets):
        super().__init__(mesh, "operator", (Role.CONTROLLER,))
        self.brokers = ScriptedBrokers()
        self.brokers.topics["orders"] = (ONE, 4)
        self.secrets = secrets
        self.settings = None
        self.kafka = None

    def connect(self, settings, clock, rng):
        self.settings = settings
        return self.brokers

    async def open(self, spec, connect=None):
        return await open_mirror(
            SpecOfMesh(spec),
            self.coordination,
            self.view,
            self.mesh.clock,
            random.Random(1),
            secrets=self.secrets,
            connect=connect or self.connect,
        )

    async def start(self, **block):
        await self.view.start()
        self.kafka = await self.open(spec_of(storage(**block)))
        self.controller = PlacementController(
            self.coordination,
            self.member,
            self.view,
            self.mesh.clock,
            mirror=self.kafka.topics,
        )
        await self.member.start()
        await self.controller.start()
        return self


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


@pytest.fixture
async def operator(mesh, tmp_path):
    found = Operator(mesh, tmp_path)
    mesh.nodes["operator"] = found
    return found


async def opened(operator):
    """Do what the first pod does: note where the storage is."""
    await operator.mesh.run(store_storage(operator.coordination, CLUSTER, RECORD))


async def wished(operator, *names):
    attachable = AttachableTopics(KAFKA_CLUSTER, ("*",))
    wishes = WantedTopics(operator.coordination, operator.view, operator.mesh.clock, attachable)
    wishes.want(names)
    await operator.mesh.settle(2_000)
    await wishes.close()


async def test_topics_that_groups_want_are_attached_with_kafkas_id(mesh, operator):
    await opened(operator)
    operator.brokers.topics["own-state"] = (TopicId(b"s" * 16), 16)
    await mesh.run(operator.start())
    await mesh.settle(5)
    await wished(operator, "orders", "own-state")
    found = operator.view.topic_named("orders")
    assert (found.topic_id, found.partitions) == (ONE, 4)
    assert operator.view.topic_named("own-state") is None
    assert operator.kafka.problem is None


async def test_patterns_of_the_object_choose_what_is_attached(mesh, operator):
    await opened(operator)
    operator.brokers.topics["billing"] = (TopicId(b"2" * 16), 1)
    await mesh.run(operator.start(topics=["orders*"]))
    await mesh.settle(5)
    await wished(operator, "orders", "billing")
    assert operator.view.topic_named("orders")
    assert operator.view.topic_named("billing") is None


async def test_brokers_that_do_not_answer_are_a_problem_until_they_do(mesh, operator):
    await opened(operator)
    await mesh.run(operator.start())
    await mesh.settle(5)
    operator.brokers.unreachable = True
    await wished(operator, "orders")
    said = operator.kafka.problem
    assert said.reason == "KafkaUnreachable"
    assert "kafka-kafka-bootstrap.kafka.svc:9093" in said.message
    assert "broker 127.0.0.1:9092 does not answer" in said.message
    operator.brokers.unreachable = False
    await mesh.settle(3_000)
    assert operator.kafka.problem is None
    assert operator.view.topic_named("orders")


async def refusal(operator, spec, connect=None):
    """Return why the mirror is not opened."""
    await operator.mesh.run(operator.view.start())
    with pytest.raises(ClusterConnectionError) as caught:
        await operator.mesh.run(operator.open(spec, connect))
    return caught.value.problem


async def test_before_a_pod_has_opened_the_storage_nothing_is_asked(mesh, operator):
    said = await refusal(operator, spec_of(storage()))
    assert said.reason == "StorageNotOpened"
    assert operator.settings is None


async def test_a_secret_that_the_operator_does_not_have_is_named(mesh, operator):
    await opened(operator)
    spec = spec_of(
        storage(
            tls={"caSecretName": "ca"}, authentication={"type": "ScramSha512", "secretName": "user"}
        )
    )
    said = await refusal(operator, spec)
    assert said.reason == "SecretNotMounted"
    assert "Secret 'ca'" in said.message
    for name in ("ca/ca.crt", "user/password"):
        path = operator.secrets / name
        path.parent.mkdir()
        path.write_text("x")
    await mesh.run(operator.open(spec))
    assert operator.settings.kafka_tls_authority == operator.secrets / "ca" / "ca.crt"
    assert operator.settings.kafka_sasl_password_file == operator.secrets / "user" / "password"
    assert operator.settings.kafka_sasl_username == "user"


async def test_a_file_that_cannot_be_used_is_said_in_its_words(mesh, operator):
    await opened(operator)

    def connect(settings, clock, rng):
        raise StartError(ExitCode.SETTINGS, "kafka_tls_authority is no PEM file")

    said = await refusal(operator, spec_of(storage()), connect)
    assert (said.reason, said.message) == ("StorageNotOpened", "kafka_tls_authority is no PEM file")


async def test_the_embedded_engine_has_no_mirror(operator):
    assert await operator.open(spec_of()) is None


def test_a_storage_that_is_not_opened_is_no_fault_of_etcd():
    spec = spec_of(storage())
    pods = seen(spec)
    whole = ClusterSeen(
        pods, plan(spec, pods), None, mesh_problem=problem("StorageNotOpened", why="no pod yet")
    )
    said = {each.kind: each for each in conditions(spec, whole)}
    assert said["EtcdAvailable"].status is True
    assert (ready(spec, whole).status, ready(spec, whole).reason) == (False, "StorageNotOpened")
