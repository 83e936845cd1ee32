"""How ids are written where people read them."""

from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId, TopicPartition

TOPIC_ID = TopicId(bytes(15) + b"\xe0")


def test_partitions_are_named_in_log_lines_by_the_digits_of_the_topic_id():
    name = f"{'00' * 15}e0/4"
    assert str(TopicPartition(TOPIC_ID, 4)) == name
    assert str(SharePartitionKey(GroupId("billing"), TOPIC_ID, 4)) == f"{name} of group billing"
