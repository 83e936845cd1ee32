"""ShareTopics, ShareGroups and ShareGroupOperations against what there is."""

import datetime

import pytest

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.group_config.evaluate import check_group_configs, effective_group_config
from sharemesh_operator.resources.groups import (
    GroupFound,
    PartitionFound,
    drifted,
    group_conditions,
    group_configs,
    group_id,
    group_status,
)
from sharemesh_operator.resources.operations import (
    finished,
    left_to_live_s,
    operation_status,
    timestamp_ms,
)
from sharemesh_operator.resources.topics import (
    TopicChange,
    TopicFound,
    change_of,
    topic_condition,
    topic_name,
)
from tests.operator.bodies import group, topic

WEEK = {"retention.ms": "604800000"}


def test_a_topic_that_is_not_there_is_created_with_its_configs():
    change = change_of(topic({"retentionBytes": 1_048_576}), None)
    assert change == TopicChange(
        create=True, partitions=4, configs={**WEEK, "retention.bytes": "1048576"}
    )


def test_a_topic_as_wanted_needs_nothing():
    assert change_of(topic(), TopicFound("id", 4, 4, WEEK)) == TopicChange()
    unlimited = {**WEEK, "retention.bytes": "-1"}
    assert change_of(topic(), TopicFound("id", 4, 4, unlimited)) == TopicChange()


def test_a_topic_grows_and_its_drift_is_corrected():
    found = TopicFound("id", 2, 2, {"retention.ms": "1", "retention.bytes": "5"})
    assert change_of(topic(), found) == TopicChange(
        partitions=4, configs={**WEEK, "retention.bytes": None}
    )


def test_a_topic_never_shrinks_and_says_what_to_do():
    found = TopicFound("id", 6, 6, WEEK)
    assert change_of(topic(), found) == TopicChange()
    told = topic_condition(topic(), found)
    assert (told.status, told.reason) == (False, "MorePartitions")
    assert "set partitions to 6" in told.message


def test_names_and_ids_default_to_the_objects_name():
    assert topic_name(topic()) == "orders"
    assert topic_name(topic({"topicName": "Orders.v2"})) == "Orders.v2"
    assert group_id(group({"groupId": "Billing_1"})) == "Billing_1"


def test_a_groups_fields_become_kafkas_configs_that_the_coordinator_accepts():
    given = {
        "recordLockDurationSeconds": 20,
        "maxDeliveryAttempts": 7,
        "isolationLevel": "ReadCommitted",
        "renewAcknowledge": "Disabled",
        "autoOffsetReset": "ByDuration",
        "autoOffsetResetDurationSeconds": 3_600,
    }
    found = group_configs(group(given))
    assert found == {
        "share.record.lock.duration.ms": "20000",
        "share.session.timeout.ms": "45000",
        "share.heartbeat.interval.ms": "5000",
        "share.assignment.interval.ms": "1000",
        "share.delivery.count.limit": "7",
        "share.partition.max.record.locks": "2000",
        "share.auto.offset.reset": "by_duration:PT3600S",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "false",
    }
    check_group_configs({}, found, {})


@pytest.mark.parametrize(("given", "set_to"), [(True, "true"), (False, "false")])
def test_a_pause_is_set_where_the_group_says_so_pau_5(given, set_to):
    assert group_configs(group({"paused": given}))["share.paused"] == set_to


def test_without_a_word_on_pauses_what_others_did_stays_pau_5():
    current = group_configs(group()) | {"share.paused": "true"}
    assert drifted(group(), current) == {}


def test_delivery_settings_are_set_where_the_group_names_them():
    """WIN-1, WIN-4, RTY-4 to RTY-6: with ``retry`` all of its settings are the group's."""
    given = {
        "inFlightLimitType": "Span",
        "maxRunsPerPartition": 5_000,
        "retry": {
            "backoffMilliseconds": 500,
            "backoffMaxMilliseconds": 60_000,
            "backoffMultiplierPercent": 150,
            "backoffJitterPercent": 0,
            "onTimeout": True,
        },
    }
    found = group_configs(group(given))
    assert drifted(group(), found) == {}, "without a word on them what others set stays"
    assert {name: value for name, value in found.items() if name not in group_configs(group())} == {
        "share.in.flight.limit.type": "span",
        "share.partition.max.runs": "5000",
        "share.retry.backoff.ms": "500",
        "share.retry.backoff.max.ms": "60000",
        "share.retry.backoff.multiplier": "1.5",
        "share.retry.backoff.jitter": "0",
        "share.retry.backoff.on.timeout": "true",
        "share.retry.schedule": "",
    }
    assert check_group_configs(found, {}, {}) == found, "as the mesh spells them: nothing drifts"


def test_a_retry_that_names_nothing_is_the_default_of_the_mesh():
    config = effective_group_config(group_configs(group({"retry": {}})), {})
    assert config.retry == GroupConfig().retry


def test_a_schedule_is_spelled_as_the_mesh_does_and_a_wrong_one_is_left_to_it():
    def schedule(*waits):
        return group_configs(group({"retry": {"schedule": list(waits)}}))["share.retry.schedule"]

    assert schedule("60s", "1500ms") == "1m,1500ms"
    assert schedule("25h") == "25h"
    with pytest.raises(RefusedError, match="each delay is 1ms to 1d"):
        check_group_configs({"share.retry.schedule": schedule("25h")}, {}, {})


def test_only_configs_that_differ_are_set():
    current = group_configs(group())
    assert drifted(group(), current) == {}
    current["share.delivery.count.limit"] = "9"
    del current["share.isolation.level"]
    assert drifted(group(), current) == {
        "share.delivery.count.limit": "5",
        "share.isolation.level": "read_uncommitted",
    }


def test_a_group_counts_its_partitions_by_leader():
    found = GroupFound(
        members=2,
        partitions=(
            PartitionFound("orders", "main-share-leader-0"),
            PartitionFound("orders", "main-share-leader-0", draining=True),
            PartitionFound("orders", ""),
        ),
    )
    told = group_status(group(), found)
    assert told["partitions"] == {"total": 3, "led": 2, "draining": 1, "unassigned": 1}
    assert told["leaders"] == [{"pod": "main-share-leader-0", "partitions": 2}]
    ready = group_conditions(found, None)[0]
    assert (ready.status, ready.reason) == (False, "PartitionsNotLed")


def test_a_topic_that_is_missing_is_named():
    ready = group_conditions(GroupFound(missing_topics=("orders",)), None)[0]
    assert ready.reason == "TopicNotFound"
    assert "create a ShareTopic" in ready.message


def operation(status=None, **spec):
    base = {"operation": "ResetOffsets", "resetTo": "Earliest", "ttlSecondsAfterFinished": 60}
    return {"metadata": {"generation": 1}, "spec": base | spec, "status": status or {}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"resetTo": "Earliest"}, -2),
        ({"resetTo": "Latest"}, -1),
        ({"resetTo": "Timestamp", "resetTime": "2026-01-01T00:00:00Z"}, 1_767_225_600_000),
    ],
)
def test_where_a_reset_goes(spec, expected):
    assert timestamp_ms(operation(**spec)) == expected


def test_an_operation_is_over_when_its_condition_is_decided():
    def body(state):
        return operation({"conditions": [{"type": "Succeeded", "status": state}]})

    assert not finished(operation())
    assert not finished(body("Unknown"))
    assert finished(body("True"))
    assert finished(body("False"))


def test_a_finished_operation_lives_for_its_time():
    now = datetime.datetime(2026, 1, 1, 0, 1, tzinfo=datetime.UTC)
    done = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    body = operation({**done, "completionTime": "2026-01-01T00:00:30Z"})
    assert left_to_live_s(body, now) == 30
    assert left_to_live_s(operation(), now) is None


def test_an_operation_begins_once_and_ends_once():
    begun = operation_status(operation(), now="t1", over=False)
    assert begun["startTime"] == "t1"
    ended = operation_status(operation(begun), now="t2", partitions=3, over=True)
    assert (ended["startTime"], ended["completionTime"], ended["partitions"]) == ("t1", "t2", 3)
