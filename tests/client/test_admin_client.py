"""Each method of the admin client against a cluster of real processes: results and errors."""

import time

import pytest

from sharemesh.client import AcknowledgeType, connect
from sharemesh.client.admin.client import EARLIEST, LAST_STABLE, LATEST
from sharemesh.client.admin_results import (
    GroupDescription,
    GroupOffset,
    NewTopic,
    TopicDescription,
    TopicPartition,
)
from sharemesh.client.errors import (
    GroupIdNotFoundError,
    IllegalArgumentError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidRequestError,
    InvalidTopicError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from sharemesh.client.quotas import EntityType, QuotaEntity
from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

LOCK_MS = "share.record.lock.duration.ms"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("admin") / "data") as up:
        yield connect(up.bootstrap)


@pytest.fixture(scope="module")
def admin(cluster):
    with cluster.admin() as admin:
        yield admin


def produced(admin, cluster, topic, count=3):
    """Return the topic's partition, with ``count`` records in it."""
    admin.create_topic(topic)
    with cluster.producer() as producer:
        for number in range(count):
            producer.send(topic, str(number)).result(20)
    return TopicPartition(topic, 0)


def until(condition):
    """Wait for what every process learns by its watch."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def value(configs, name):
    return {each.name: each.value for each in configs}[name]


def grouped(admin, cluster, topic, group):
    """Let an empty group of that name have accepted everything in the topic."""
    admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    with cluster.share_consumer(group, [topic]) as consumer:
        assert consumer.poll(10_000)
        while consumer.poll(200):
            pass
        consumer.commit_sync()


def test_topics_are_created_described_grown_and_deleted(admin):
    wanted = [NewTopic("a", 2, {"retention.ms": "1000"}), NewTopic("bad name")]
    problems = admin.create_topics(wanted, validate_only=True)
    assert problems["a"] is None
    assert isinstance(problems["bad name"], InvalidTopicError)
    assert "a" not in admin.list_topics()
    assert admin.create_topics(wanted[:1]) == {"a": None}
    with pytest.raises(TopicAlreadyExistsError, match="a"):
        admin.create_topic("a")
    admin.add_partitions("a", 3)
    with pytest.raises(InvalidPartitionsError):
        admin.add_partitions("a", 3)
    described = admin.describe_topics(["a", "missing"])
    assert isinstance(described["a"], TopicDescription)
    assert [each.partition for each in described["a"].partitions] == [0, 1, 2]
    assert described["a"].configs["retention.ms"] == "1000"
    assert isinstance(described["missing"], UnknownTopicOrPartitionError)
    assert "a" in admin.list_topics()
    problems = admin.delete_topics(["a", "missing"])
    assert problems["a"] is None
    assert isinstance(problems["missing"], UnknownTopicOrPartitionError)
    assert "a" not in admin.list_topics()


def test_groups_are_listed_described_and_deleted(admin, cluster):
    produced(admin, cluster, "b")
    grouped(admin, cluster, "b", "gb")
    assert "gb" in [each.group_id for each in admin.list_groups(states=["empty"])]
    assert "gb" not in [each.group_id for each in admin.list_groups(states=["Stable"])]
    with pytest.raises(IllegalArgumentError, match="Invalid state list"):
        admin.list_groups(states=["bad"])
    found = admin.describe_groups(["gb", "missing"])
    assert isinstance(found["gb"], GroupDescription)
    assert (found["gb"].state, found["gb"].members) == ("Empty", ())
    assert isinstance(found["missing"], GroupIdNotFoundError)
    assert not found["gb"].paused
    admin.pause_group("gb")
    until(lambda: admin.describe_groups(["gb"])["gb"].paused)  # PAU-4
    admin.resume_group("gb")
    with cluster.share_consumer("gb", ["b"]) as consumer:
        consumer.poll(500)
        assert isinstance(admin.delete_groups(["gb"])["gb"], NonEmptyGroupError)
        (member,) = admin.describe_groups(["gb"])["gb"].members
        assert (member.member_id, member.assignment) == (consumer.member_id, {"b": (0,)})
    problems = admin.delete_groups(["gb", "missing"])
    assert problems["gb"] is None
    assert isinstance(problems["missing"], GroupIdNotFoundError)
    assert "gb" not in [each.group_id for each in admin.list_groups()]


def test_offsets_of_a_group_are_listed_altered_and_deleted(admin, cluster):
    where = produced(admin, cluster, "c")
    grouped(admin, cluster, "c", "gc")
    (found,) = admin.list_share_group_offsets("gc").values()
    assert isinstance(found, GroupOffset)
    assert found.lag == 0
    problems = admin.alter_share_group_offsets("gc", {where: 1, TopicPartition("missing", 0): 0})
    assert problems[where] is None
    unknown = problems[TopicPartition("missing", 0)]
    assert isinstance(unknown, UnknownTopicOrPartitionError)
    assert unknown.about == "missing/0"
    found = admin.list_share_group_offsets("gc", ["c"])[where]
    assert (found.start_offset, found.lag) == (1, 2)
    assert admin.alter_share_group_offsets("made", {where: 0}) == {where: None}
    with cluster.share_consumer("gc", ["c"]) as consumer:
        consumer.poll(500)
        with pytest.raises(NonEmptyGroupError, match="gc"):
            admin.alter_share_group_offsets("gc", {where: 0})
        with pytest.raises(NonEmptyGroupError):
            admin.delete_share_group_offsets("gc", ["c"])
    assert admin.delete_share_group_offsets("gc", ["c"]) == {"c": None}
    assert admin.list_share_group_offsets("gc") == {}
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_share_group_offsets("missing", ["c"])


def test_configs_of_groups_topics_and_the_cluster(admin, cluster):
    admin.create_topic("d")
    admin.alter_group_configs("gd", {LOCK_MS: "20000"})
    admin.alter_group_configs("gd", {LOCK_MS: "25000"}, validate_only=True)
    found = {each.name: each for each in admin.describe_group_configs("gd")}
    assert found[LOCK_MS].value == "20000"
    with pytest.raises(InvalidConfigError, match="not in this version"):
        admin.alter_group_configs("gd", {"errors.deadletterqueue.topic.name": "dlq.t"})
    with pytest.raises(InvalidConfigError, match="did you mean"):
        admin.alter_group_configs("gd", {"share.record.lock.duration": "20000"})
    admin.alter_group_configs("gd", {LOCK_MS: 21_000})
    assert value(admin.describe_group_configs("gd"), LOCK_MS) == "21000"
    admin.alter_group_configs("gd", {LOCK_MS: None})
    reset = {each.name: each for each in admin.describe_group_configs("gd")}
    assert reset[LOCK_MS].source != found[LOCK_MS].source
    admin.alter_configs({"retention.ms": "5000"}, "d")
    until(lambda: value(admin.describe_configs("d"), "retention.ms") == "5000")
    admin.alter_configs({"group.share.max.size": "17"})
    until(lambda: value(admin.describe_configs(), "group.share.max.size") == "17")
    with pytest.raises(InvalidConfigError):
        admin.alter_configs({"group.share.max.size": "0"})
    admin.alter_configs({"group.share.max.size": None})


def test_a_group_is_paused_and_resumed(admin):
    def paused():
        return {each.name: each.value for each in admin.describe_group_configs("gp")}[
            "share.paused"
        ]

    admin.pause_group("gp")
    assert paused() == "true"
    admin.resume_group("gp")
    assert paused() == "false"


def test_quotas_are_altered_and_described(admin):
    """QUO-7, QUO-8: also more entities than one request may have."""
    users = QuotaEntity(EntityType.USER, None)
    groups = [QuotaEntity(EntityType.GROUP, f"g{number}") for number in range(150)]
    wrong = QuotaEntity(EntityType.USER, "ann")
    changes = {each: {"record_rate": 7.5} for each in groups}
    changes |= {users: {"streams": 2, "producer_byte_rate": 1e6}, wrong: {"streams": 1}}
    assert set(admin.alter_client_quotas(changes, validate_only=True)) == set(changes)
    assert admin.describe_client_quotas() == {}
    problems = admin.alter_client_quotas(changes)
    assert list(problems) == list(changes)
    with pytest.raises(InvalidRequestError, match="write User:<name>"):
        raise problems.pop(wrong)
    assert set(problems.values()) == {None}
    assert admin.describe_client_quotas(users) == {
        users: {"streams": 2.0, "producer_byte_rate": 1e6}
    }
    of_groups = admin.describe_client_quotas(entity_type=EntityType.GROUP)
    assert of_groups == {each: {"record_rate": 7.5} for each in groups}
    assert len(admin.describe_client_quotas()) == 151
    removed = {each: {"record_rate": None} for each in groups}
    assert set(admin.alter_client_quotas(removed).values()) == {None}
    assert admin.alter_client_quotas({users: {"streams": None}}) == {users: None}
    assert admin.describe_client_quotas() == {users: {"producer_byte_rate": 1e6}}
    with pytest.raises(IllegalArgumentError, match="not both"):
        admin.describe_client_quotas(users, entity_type=EntityType.USER)
    admin.alter_client_quotas({users: {"producer_byte_rate": None}})


def test_records_are_found_by_time_explained_and_deleted(admin, cluster):
    where = produced(admin, cluster, "e")
    missing = TopicPartition("missing", 0)
    for time_ms, offset in ((EARLIEST, 0), (LATEST, 3), (LAST_STABLE, 3), (1, 0)):
        assert admin.list_offsets({where: time_ms})[where].offset == offset
    assert isinstance(admin.list_offsets({missing: LATEST})[missing], UnknownTopicOrPartitionError)
    admin.alter_group_configs("ge", {"share.auto.offset.reset": "earliest"})
    with cluster.share_consumer("ge", ["e"], share_acknowledgement_mode="explicit") as consumer:
        first = consumer.poll(10_000)[0]
        locked = admin.explain("ge", "e", 0, first.offset)
        assert (locked.reason, locked.member_id) == ("LOCKED", consumer.member_id)
        consumer.acknowledge(first)
        consumer.commit_sync()
        finished = admin.explain("ge", "e", 0, first.offset)
        assert (finished.reason, finished.last_cause) == ("ACKNOWLEDGED", "ACCEPT")
        last = finished.events[-1]
        assert (last.cause, last.member_id, last.delivery_count) == (
            "ACCEPT",
            consumer.member_id,
            1,
        )
        nothing = admin.explain("ge", "e", 0, 99)
        assert (nothing.reason, nothing.delivery_count) == ("NOT_PRODUCED", None)
    until(lambda: admin.list_share_group_offsets("ge")[where].archived == {})
    with cluster.share_consumer("ge", ["e"], share_acknowledgement_mode="explicit") as consumer:
        second = consumer.poll(10_000)[0]
        consumer.acknowledge(second, AcknowledgeType.REJECT)
        consumer.commit_sync()
        stands = admin.list_share_group_offsets("ge")[where]
        assert stands.archived == {"REJECT": 1}
        assert (
            0
            < stands.archived_since_ms
            <= admin.explain("ge", "e", 0, second.offset).events[-1].timestamp_ms
        )
    with pytest.raises(GroupIdNotFoundError, match="nosuch"):
        admin.explain("nosuch", "e", 0, first.offset)
    with pytest.raises(GroupIdNotFoundError):
        admin.explain("nosuch", "e", 0, 99)  # an offset that no record has
    assert admin.delete_records({where: 2}) == {where: 2}
    assert admin.list_offsets({where: EARLIEST})[where].offset == 2
    assert isinstance(admin.delete_records({where: 99})[where], OffsetOutOfRangeError)
    assert admin.delete_records({where: -1}) == {where: 3}


def test_the_cluster_is_described(admin):
    found = admin.describe_cluster()
    assert {each.role for each in found.nodes} >= {"share-leader", "group-coordinator"}
    assert found.controller_id
    assert all(each.leader_id for each in found.shards)
