"""The elected controller mirrors attached topics, and believes that one is gone last (spec KTP)."""

import random

import pytest

from sharemesh.cluster.store import records
from sharemesh.cluster.store.topics import delete_topic
from sharemesh.cluster.wanted_topics import WANTED_MAX, WantedTopics
from sharemesh.controller.placement_controller import PlacementController
from sharemesh.controller.topic_mirror import TopicMirror
from sharemesh.domain.attached_topics import AttachableTopics
from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import NO_TOPIC_ID
from sharemesh.ports.cluster import Role
from sharemesh.ports.coordination import Delete, Put
from tests.cluster.mesh import Mesh, Node
from tests.controller.scripted_brokers import KAFKA_CLUSTER, ScriptedBrokers

C = Role.CONTROLLER
ONE, TWO = TopicId(b"1" * 16), TopicId(b"2" * 16)
MINUTE_MS = 60_000
TOPIC_AUTHORIZATION_FAILED = 29
ATTACHABLE = AttachableTopics(KAFKA_CLUSTER, ("*", "!__*"), own_topics=("own-state",))


class KafkaNode(Node):
    """A controller whose topics are those of scripted brokers."""

    def __init__(self, mesh: Mesh, name: str, brokers: ScriptedBrokers) -> None:
        super().__init__(mesh, name, (C,))
        self.brokers = brokers
        self.wishes = WantedTopics(self.coordination, self.view, mesh.clock, ATTACHABLE)

    async def start(self) -> Node:
        await self.view.start()
        mirror = TopicMirror(
            self.coordination,
            self.view,
            self.mesh.clock,
            random.Random(1),
            self.brokers,
            ATTACHABLE,
        )
        self.controller = PlacementController(
            self.coordination, self.member, self.view, self.mesh.clock, mirror=mirror
        )
        await self.member.start()
        await self.controller.start()
        return self

    async def stop(self) -> None:
        await self.wishes.close()
        await super().stop()

    def topic(self, name: str = "orders"):
        return self.view.topic_named(name)


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


async def node_in(mesh: Mesh, brokers: ScriptedBrokers, name: str = "ctl") -> KafkaNode:
    node = KafkaNode(mesh, name, brokers)
    mesh.nodes[name] = node
    await mesh.run(node.start())
    await mesh.settle(5)
    return node


async def attached(mesh: Mesh, brokers: ScriptedBrokers) -> KafkaNode:
    """Return a controller that has ``orders`` attached."""
    node = await node_in(mesh, brokers)
    node.wishes.want(["orders"])
    await mesh.settle(1_100)
    assert node.topic() is not None
    return node


@pytest.fixture
def brokers():
    brokers = ScriptedBrokers()
    brokers.topics["orders"] = (ONE, 4)
    return brokers


async def test_ktp_4_a_wanted_topic_is_attached_at_once_with_kafkas_id(mesh, brokers):
    node = await node_in(mesh, brokers)
    brokers.topics["others"] = (TWO, 1)
    await mesh.settle(2_000)
    node.wishes.want(["orders", "orders", "missing"])
    await mesh.settle(100)
    assert (node.topic().topic_id, node.topic().partitions) == (ONE, 4)
    assert node.topic("others") is None
    assert set(node.view.tables.wanted) == {"missing"}


async def test_ktp_4_new_names_are_asked_for_once_a_second_and_all_in_slices_of_500(mesh, brokers):
    node = await node_in(mesh, brokers)
    for number in range(20):
        node.wishes.want([f"missing-{number}"])
        await mesh.settle(50)
    assert len([names for names in brokers.asked if names]) <= 2
    node.wishes.want([f"topic-{number}" for number in range(1_100)])
    await mesh.settle(31_000)
    assert max(map(len, brokers.asked)) == 500
    assert sum(map(len, brokers.asked[-3:])) == 1_120


async def test_ktp_4_a_new_name_that_a_broker_has_not_heard_of_is_asked_for_again_soon(
    mesh, brokers
):
    node = await node_in(mesh, brokers)
    put = Put(node.view.keys.attached_topic("late"), records.encode({}))
    await node.coordination.commit([], [put])
    await mesh.settle(500)
    assert node.topic("late") is None
    brokers.topics["late"] = (TWO, 1)
    await mesh.settle(3_000)
    assert node.topic("late").topic_id == TWO


async def test_ktp_4_a_wanted_name_that_is_never_shown_is_forgotten(mesh, brokers):
    node = await node_in(mesh, brokers)
    node.wishes.want(["missing"])
    await mesh.settle(9 * MINUTE_MS)
    assert "missing" in node.view.tables.wanted
    await mesh.settle(2 * MINUTE_MS)
    assert node.view.tables.wanted == {}


async def test_ktp_2_names_that_may_not_be_attached_are_not_written_nor_too_many(mesh, brokers):
    node = await node_in(mesh, brokers)
    brokers.unreachable = True
    node.wishes.want(["__consumer_offsets", "own-state", "a/b", "x" * 300])
    node.wishes.want(f"t-{number}" for number in range(WANTED_MAX + 5))
    await mesh.settle(100)
    assert len(node.view.tables.wanted) == WANTED_MAX
    assert node.wishes.ignored == 5


async def test_ktp_3_an_attached_name_needs_no_group(mesh, brokers):
    node = await node_in(mesh, brokers)
    put = Put(node.view.keys.attached_topic("orders"), records.encode({}))
    await node.coordination.commit([], [put])
    await mesh.settle(1_100)
    assert node.topic().topic_id == ONE


async def test_ktp_3_a_detached_topic_comes_back_when_a_group_asks_for_it(mesh, brokers):
    node = await attached(mesh, brokers)
    await delete_topic(node.coordination, node.view, "orders")
    await mesh.settle(40_000)
    assert node.topic() is None
    node.wishes.want(["orders"])
    await mesh.settle(1_100)
    assert node.topic().topic_id == ONE
    assert ONE not in node.view.tables.deletions


async def test_ktp_5_a_topic_grows_and_never_shrinks(mesh, brokers, caplog):
    node = await attached(mesh, brokers)
    brokers.topics["orders"] = (ONE, 6)
    await mesh.settle(30_000)
    assert node.topic().partitions == 6
    brokers.topics["orders"] = (ONE, 2)
    await mesh.settle(2 * MINUTE_MS)
    assert node.topic().partitions == 6
    assert caplog.text.count("a topic never shrinks") == 1


async def test_ktp_6_without_topic_ids_one_is_made_and_kept(mesh, brokers):
    brokers.topics["orders"] = (NO_TOPIC_ID, 2)
    node = await attached(mesh, brokers)
    made = node.topic().topic_id
    assert made != NO_TOPIC_ID
    brokers.topics["orders"] = (NO_TOPIC_ID, 3)
    await mesh.settle(MINUTE_MS)
    assert (node.topic().topic_id, node.topic().partitions) == (made, 3)


async def test_ktp_8_a_topic_is_gone_after_a_minute_and_not_sooner(mesh, brokers):
    node = await attached(mesh, brokers)
    del brokers.topics["orders"]
    await mesh.settle(85_000)
    assert node.topic() is not None
    await mesh.settle(MINUTE_MS)
    assert node.topic() is None
    assert ONE in node.view.tables.deletions or node.view.tables.assignments == {}


@pytest.mark.parametrize("doubt", ["refused", "left out", "another cluster", "no answer", "stale"])
async def test_ktp_8_nothing_is_deleted_on_a_doubtful_answer(mesh, brokers, doubt):
    node = await attached(mesh, brokers)
    if doubt == "refused":
        brokers.errors["orders"] = TOPIC_AUTHORIZATION_FAILED
    elif doubt == "left out":
        brokers.left_out["orders"] = None
    elif doubt == "another cluster":
        brokers.topics.clear()
        brokers.cluster_id = "kafka-2"
    elif doubt == "no answer":
        brokers.unreachable = True
    else:
        brokers.stale[1] = {}  # two of three still show it
    await mesh.settle(20 * MINUTE_MS)
    assert node.topic().topic_id == ONE


async def test_ktp_9_another_id_is_attached_anew_and_the_old_one_never_comes_back(mesh, brokers):
    node = await attached(mesh, brokers)
    put = Put(node.view.keys.attached_topic("orders"), records.encode({}))
    await node.coordination.commit([], [put])
    brokers.topics["orders"] = (TWO, 3)
    await mesh.settle(3 * MINUTE_MS)
    assert (node.topic().topic_id, node.topic().partitions) == (TWO, 3)
    brokers.topics["orders"] = (ONE, 4)
    await mesh.settle(20 * MINUTE_MS)
    assert node.topic().topic_id == TWO


async def test_ktp_9_a_record_that_changed_meanwhile_is_not_deleted(mesh, brokers):
    node = await attached(mesh, brokers)
    stored = node.view.tables.topics["orders"]
    mirror = node.controller._mirror
    await node.coordination.commit([], [Put(node.view.keys.topic("orders"), b"changed")])
    leadership = next(iter(node.view.tables.candidates["controller"].values()))
    assert leadership is not None
    guard = await node.coordination.campaign("other", b"", node.member.session)
    await mirror._give_up(guard, stored)
    kept = await node.coordination.get(node.view.keys.topic("orders"))
    assert kept.value == b"changed"


async def test_a_new_controller_counts_absent_answers_anew(mesh, brokers):
    first = await attached(mesh, brokers)
    second = await node_in(mesh, brokers, "ctl-2")
    del brokers.topics["orders"]
    await mesh.settle(55_000)
    await first.kill()
    await mesh.settle(50_000)
    assert second.controller.elected
    assert second.topic() is not None
    await mesh.settle(2 * MINUTE_MS)
    assert second.topic() is None


async def test_what_is_wrong_is_said_once(mesh, brokers, caplog):
    await attached(mesh, brokers)
    brokers.unreachable = True
    await mesh.settle(3 * MINUTE_MS)
    assert caplog.text.count("topics are not mirrored now") == 1
    assert "127.0.0.1:9092 does not answer" in caplog.text


async def test_wishes_are_written_once_the_store_answers_again(mesh, brokers):
    node = await node_in(mesh, brokers)
    node.coordination.cut_off = True
    node.wishes.want(["orders"])
    await mesh.settle(500)
    node.coordination.cut_off = False
    await mesh.settle(3_000)
    assert node.topic() is not None
    await node.coordination.commit([], [Delete(node.view.keys.topic("orders"))])


async def test_ktp_4_a_wanted_topic_without_rights_is_said_once(mesh, brokers, caplog):
    brokers.errors["orders"] = TOPIC_AUTHORIZATION_FAILED
    node = await node_in(mesh, brokers)
    node.wishes.want(["orders"])
    await mesh.settle(3 * MINUTE_MS)
    assert caplog.text.count("topic 'orders' is not attached") == 1
    assert "TOPIC_AUTHORIZATION_FAILED; give the principal of Sharemesh the rights" in caplog.text
    del brokers.errors["orders"]
    await mesh.settle(MINUTE_MS)
    assert node.topic().topic_id == ONE


async def test_ktp_7_an_attached_topic_whose_rights_went_is_said_each_time(mesh, brokers, caplog):
    await attached(mesh, brokers)
    for times in (1, 2):
        brokers.errors["orders"] = TOPIC_AUTHORIZATION_FAILED
        await mesh.settle(3 * MINUTE_MS)
        assert caplog.text.count("topic 'orders' keeps its record and its states") == times
        del brokers.errors["orders"]
        await mesh.settle(MINUTE_MS)


async def test_ktp_4_a_wanted_name_that_is_forgotten_is_said(mesh, brokers, caplog):
    node = await node_in(mesh, brokers)
    node.wishes.want(["missing"])
    await mesh.settle(11 * MINUTE_MS)
    assert caplog.text.count("topic 'missing' is wanted no longer") == 1


async def test_ktp_8_a_broker_that_forgot_the_others_deletes_nothing(mesh, brokers, caplog):
    node = await attached(mesh, brokers)
    brokers.alone = 2
    del brokers.topics["orders"]
    await mesh.settle(20 * MINUTE_MS)
    assert node.topic().topic_id == ONE
    assert caplog.text.count("no more than one broker of 3 says that it is gone") == 1
    brokers.alone = None
    await mesh.settle(2 * MINUTE_MS)
    assert node.topic() is None


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("requests", [1, 2, 3, 4])
async def test_ktp_8_a_topic_is_gone_however_many_requests_a_round_takes(mesh, count, requests):
    """Brokers answer in turn: with as many requests as brokers each would ask the same of each."""
    brokers = ScriptedBrokers(count)
    brokers.topics["orders"] = (ONE, 4)
    node = await attached(mesh, brokers)
    node.wishes.want(f"t-{number}" for number in range(500 * (requests - 1)))
    await mesh.settle(31_000)
    del brokers.topics["orders"]
    await mesh.settle(2 * MINUTE_MS)
    assert node.topic() is None
