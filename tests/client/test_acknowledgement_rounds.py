"""What goes to a leader together (spec CL-34)."""

from dataclasses import replace

from sharemesh.client.consumer.acknowledgement_rounds import encode_together, rounds_of
from sharemesh.client.consumer.deliveries import PartitionAcknowledgements, UniformTypes
from sharemesh.client.records import TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType as A


class Route:
    address = "a:1"
    is_open = True


def of(first: int, last: int, partition: int = 0, kind: A = A.ACCEPT) -> PartitionAcknowledgements:
    source = TopicIdPartition("t", partition, b"t" * 16)
    return PartitionAcknowledgements(
        source, Route(), 1, dict.fromkeys(range(first, last + 1), kind)
    )


def shape(*acknowledgements):
    return [
        {number: len(together) for (_, number), together in one.items()}
        for one in rounds_of(acknowledgements)
    ]


def test_what_follows_goes_together_and_partitions_share_a_round():
    assert shape() == []
    assert shape(of(0, 4), of(0, 2, 1), of(5, 9), of(20, 29)) == [{0: 3, 1: 1}]
    (together,) = rounds_of([of(0, 4), of(5, 9)])[0].values()
    (batch,) = encode_together(together)
    assert (batch.first_offset, batch.last_offset, list(batch.acknowledge_types)) == (0, 9, [1])


def test_what_is_said_of_whole_ranges_goes_as_ranges():
    def whole(first: int, last: int, kind: A = A.ACCEPT) -> PartitionAcknowledgements:
        types = UniformTypes(kind, [range(first, last + 1)])
        return replace(of(first, last), types=types)

    for together, expected in (
        ([whole(0, 4), whole(5, 9), whole(20, 21)], [(0, 9, [1]), (20, 21, [1])]),
        ([whole(0, 1), whole(2, 3, A.REJECT)], [(0, 3, [1, 1, 3, 3])]),
        ([whole(0, 1), of(2, 3)], [(0, 3, [1])]),
    ):
        (one,) = rounds_of(together)[0].values()
        assert [
            (batch.first_offset, batch.last_offset, list(batch.acknowledge_types))
            for batch in encode_together(one)
        ] == expected


def test_what_cannot_be_one_goes_in_rounds_in_its_order():
    again = of(3, 6)
    later_epoch = replace(of(10, 12), leader_epoch=2)
    of_commit = replace(of(10, 12), ticket=7)
    unseen = replace(of(10, 11, kind=A.RELEASE), uncounted={10: 1, 11: 1})
    for each in (again, later_epoch, of_commit, unseen):
        assert shape(of(0, 4), each) == [{0: 1}, {0: 1}]
        assert shape(each, of(0, 2)) == [{0: 1}, {0: 1}]
    assert shape(of(5, 9), of(0, 4), of(10, 12), of(0, 0, 1)) == [{0: 1, 1: 1}, {0: 2}]
    (first,) = rounds_of([unseen])[0].values()
    assert [each.uncounted for each in encode_together(first)] == [True]
