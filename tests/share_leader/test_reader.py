"""Whether who consumes still may: rights that are looked at in each turn (AUT-4)."""

from types import SimpleNamespace

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, TopicId, TopicPartition
from sharemesh.share_leader.requests.access import LeaderAccess, Reader

FOO, BAR = TopicId(b"f" * 16), TopicId(b"b" * 16)
NAMES = {FOO: "foo", BAR: "bar"}


class Rules:
    """Allows all but the topic foo, and counts questions."""

    def __init__(self):
        self.asked = 0

    def allows(self, principal, operation, resource, name):
        self.asked += 1
        return name != "foo"


def view():
    def topic(topic_id):
        return SimpleNamespace(name=NAMES[topic_id], partitions=10_000)

    return SimpleNamespace(topic=topic)


def test_a_right_is_looked_up_once_for_all_partitions_of_a_topic():
    rules = Rules()
    reader = Reader(LeaderAccess(rules, view()), "User:a", GroupId("g"))
    foo = [TopicPartition(FOO, number) for number in range(10_000)]
    bar = [TopicPartition(BAR, number) for number in range(10_000)]
    lost = reader.lost([*bar, *foo])
    assert list(lost) == foo
    assert {error for error, _ in lost.values()} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert rules.asked == 4, "group and topic, for each topic"
