"""Section L: requests as a whole, over real gRPC against a running leader."""

from sharemesh import methods
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.v1 import share_leader_pb2 as pb
from tests.conformance.scenario import scenario
from tests.decoding import decode_records
from tests.share_leader.world import BAR, BAZ, FOO, ack, acquired, parts, topics, world

TP = [TopicPartition(FOO, n) for n in range(8)]
TP0, TP1 = TP[:2]
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


async def warm(w, *partitions, member="m1"):
    """A member whose first fetch (epoch 0) is done and whose share partitions are active."""
    for partition in partitions:
        if w.service.partitions.get(partition) is None:
            await w.lead(partition)
    client = w.client(member)
    await client.join(*partitions)
    return client


def errors(response):
    return {p: e.error_code for p, e in parts(response).items()}


@scenario("REQ-S02")
async def test_member_ids_have_1_to_36_characters():
    async with world(grpc=True) as w:
        await w.lead(TP0)
        for member_id, error in ((None, 42), ("", 42), ("m" * 37, 42), ("m" * 36, 0)):
            request = pb.ShareFetchRequest(
                group_id="g", member_id=member_id, topics=topics([TP0], [])
            )
            response = await w.caller().call(methods.SHARE_FETCH, request, to=w.address)
            assert response.error_code == error


@scenario("REQ-S04")
async def test_unknown_topics_and_partitions_are_errors_of_the_partition():
    async with world(grpc=True) as w:
        m1 = await warm(w, TP0)
        unknown, missing = TopicPartition(BAZ, 0), TopicPartition(FOO, 99)
        answer = await m1.acknowledge(ack(unknown, 0, 1, ACCEPT), ack(missing, 0, 1, ACCEPT))
        assert (answer.error_code, errors(answer)) == (0, {unknown: 100, missing: 3})
        response = await m1.fetch(unknown, missing)
        assert (response.error_code, errors(response)) == (0, {unknown: 100, missing: 3})


@scenario("REQ-S05")
async def test_a_partition_led_elsewhere_names_its_leader():
    async with world(grpc=True) as w:
        await w.claim("leader-2", TP0, 7)
        response = await w.client().fetch(TP0)
        assert response.error_code == 0
        assert response.acquisition_lock_timeout_ms == 30_000
        entry = parts(response)[TP0]
        assert entry.error_code == 6
        assert (
            entry.current_leader
            == pb.ShareFetchPartition(
                current_leader={"leader_id": "leader-2", "leader_epoch": 7}
            ).current_leader
        )
        assert [n.node_id for n in response.node_endpoints] == ["leader-2"]


@scenario("REQ-S06", "REQ-S07", "REQ-S08", "REQ-S09")
async def test_fetch_then_accept_release_or_reject():
    for kind, later in (
        (ACCEPT, [(10, 19, 1)]),
        (RELEASE, [(0, 9, 2)]),
        (REJECT, [(10, 19, 1)]),
    ):
        async with world(grpc=True) as w:
            m1 = await warm(w, TP0)
            await w.produce(TP0, 10)
            response = await m1.fetch(epoch=1)
            assert acquired(response, TP0) == [(0, 9, 1)]
            assert response.acquisition_lock_timeout_ms == 30_000
            assert len(decode_records(parts(response)[TP0].records, [(0, 9, 1)])) == 10
            answer = await m1.acknowledge(ack(TP0, 0, 9, kind), epoch=2)
            assert (answer.error_code, errors(answer)) == (0, {TP0: 0})
            if kind != RELEASE:
                await w.produce(TP0, 10)
            assert acquired(await m1.fetch(epoch=3), TP0) == later
            if kind == REJECT:
                await m1.acknowledge(ack(TP0, 10, 19, ACCEPT))
                assert acquired(await m1.fetch(), TP0) == [], "0-9 come never again"


@scenario("REQ-S10")
async def test_acknowledgements_ride_on_a_fetch():
    for kind in (ACCEPT, RELEASE, REJECT):
        async with world(grpc=True) as w:
            m1 = await warm(w, TP0)
            await w.produce(TP0, 10)
            assert acquired(await m1.fetch(epoch=1), TP0) == [(0, 9, 1)]
            await w.produce(TP0, 10)
            response = await m1.fetch(acks=[ack(TP0, 0, 9, kind)], epoch=2)
            assert parts(response)[TP0].acknowledge_error_code == 0
            got = acquired(response, TP0)
            if kind != RELEASE:
                assert got == [(10, 19, 1)]
                continue
            assert set(got) <= {(0, 9, 2), (10, 19, 1)}
            if (0, 9, 2) not in got:
                got += acquired(await m1.fetch(), TP0)
            assert (0, 9, 2) in got


@scenario("REQ-S11")
async def test_a_record_is_delivered_at_most_as_often_as_the_limit_says():
    async with world(grpc=True) as w:
        await w.configure("g", auto_offset_reset="earliest", delivery_count_limit=2)
        m1 = await warm(w, TP0)
        await w.produce(TP0, 10)
        assert acquired(await m1.fetch(), TP0) == [(0, 9, 1)]
        assert errors(await m1.acknowledge(ack(TP0, 0, 9, RELEASE))) == {TP0: 0}
        assert acquired(await m1.fetch(), TP0) == [(0, 9, 2)]
        assert errors(await m1.acknowledge(ack(TP0, 0, 9, RELEASE))) == {TP0: 0}
        await w.produce(TP0, 10)
        assert acquired(await m1.fetch(), TP0) == [(10, 19, 1)]


@scenario("REQ-S12")
async def test_three_members_share_one_partition():
    async with world(grpc=True) as w:
        members = [await warm(w, TP0, member=f"m{n}") for n in (1, 2, 3)]
        for number, member in enumerate(members):
            await w.produce(TP0, 1)
            assert acquired(await member.fetch(), TP0) == [(number, number, 1)]


@scenario("REQ-S14")
async def test_closing_a_session_by_fetch_releases_what_was_held():
    async with world(grpc=True) as w:
        m1, m2 = await warm(w, TP0), await warm(w, TP0, member="m2")
        await w.produce(TP0, 10)
        await m1.fetch()
        await w.produce(TP0, 10)
        response = await m1.fetch(acks=[ack(TP0, 0, 9, ACCEPT)])
        assert acquired(response, TP0) == [(10, 19, 1)]
        response = await m1.fetch(epoch=-1)
        assert (response.error_code, parts(response)) == (0, {})
        assert acquired(await m2.fetch(max_wait_ms=10_000), TP0) == [(10, 19, 2)]


@scenario("REQ-S15")
async def test_closing_a_session_by_acknowledge():
    async with world(grpc=True) as w:
        m1 = await warm(w, TP0)
        await w.produce(TP0, 20)
        await m1.fetch()
        answer = await m1.acknowledge(ack(TP0, 10, 19, ACCEPT), epoch=-1)
        assert errors(answer) == {TP0: 0}
        assert (await m1.acknowledge(epoch=1)).error_code == 122


@scenario("REQ-S16")
async def test_sessions_of_others_are_not_found():
    async with world(grpc=True) as w:
        await warm(w, TP0)
        other = w.client("other")
        assert (await other.acknowledge(epoch=0)).error_code == 123
        assert (await other.fetch(epoch=1)).error_code == 122
        assert (await other.acknowledge(epoch=1)).error_code == 122


@scenario("REQ-S17", "REQ-S18")
async def test_max_records_and_batch_size():
    async with world(grpc=True) as w:
        m1 = await warm(w, TP0)
        await w.produce(TP0, *[1] * 10)
        assert acquired(await m1.fetch(max_records=1, batch_size=1), TP0) == [(0, 0, 1)]
    async with world(grpc=True) as w:
        m1 = await warm(w, TP0)
        await w.produce(TP0, *[1] * 10)
        got = acquired(await m1.fetch(max_records=5, batch_size=1), TP0)
        assert got == [(n, n, 1) for n in range(5)]


@scenario("REQ-S19")
async def test_forgotten_partitions_give_no_data_and_take_acknowledgements():
    async with world(grpc=True) as w:
        m1 = await warm(w, TP0, TP1)
        for partition in (TP0, TP1):
            await w.produce(partition, 10)
        m1.epoch = 0
        first = await m1.fetch(TP0, TP1)
        assert acquired(first, TP0) == [(0, 9, 1)]
        response = await m1.fetch(forget=[TP0], epoch=1)
        assert TP0 not in parts(response)
        for partition in (TP0, TP1):
            await w.produce(partition, 10)
        response = await m1.fetch(epoch=2)
        assert set(parts(response)) == {TP1}
        assert acquired(response, TP1) == [(10, 19, 1)]
        assert errors(await m1.acknowledge(ack(TP0, 0, 9, ACCEPT))) == {TP0: 0}


@scenario("REQ-S20")
async def test_malformed_acknowledgements_fail_their_partition_only():
    async with world(grpc=True) as w:
        m1 = await warm(w, *TP[:6])
        for partition in TP[:6]:
            await w.produce(partition, 60)
        await m1.fetch(max_records=1_000)
        writes = len(w.keeper.writes)
        answer = await m1.acknowledge(
            ack(TP[0], 39, 24, ACCEPT),
            ack(TP[1], 5, 19, 0, 2),
            ack(TP[2], 34, 56, ACCEPT),
            ack(TP[2], 10, 19, ACCEPT),
            ack(TP[3], 0, 9),
            ack(TP[4], 0, 9, 5),
            ack(TP[5], 0, 9, ACCEPT),
        )
        assert answer.error_code == 0
        assert errors(answer) == dict.fromkeys(TP[:5], 42) | {TP[5]: 0}
        assert [key.partition for key, _ in w.keeper.writes[writes:]] == [5]
        for partition in TP[:5]:
            (view,) = w.runner(partition).machine.record_states()
            assert (view.first_offset, view.last_offset, view.state.name) == (0, 59, "ACQUIRED")


@scenario("REQ-S22")
async def test_listed_partitions_without_acknowledgements_appear_beside_others():
    async with world(grpc=True) as w:
        m1 = await warm(w, TP0, TP1)
        await w.produce(TP0, 10)
        await m1.fetch()
        response = await m1.fetch(TP0, TP1, acks=[ack(TP0, 0, 9, ACCEPT)])
        assert parts(response)[TP0].acknowledge_error_code == 0
        assert parts(response)[TP1].acknowledge_error_code == 0


@scenario("REQ-S23")
async def test_acknowledging_what_was_never_fetched_is_unknown():
    for setup in ("another group", "an empty cache"):
        async with world(grpc=True) as w:
            m1 = await warm(w, TP0 if setup == "another group" else TP1)
            await w.lead(TopicPartition(BAR, 0))
            await w.produce(TP1 if setup == "an empty cache" else TP0, 10)
            await m1.fetch()
            stranger = w.client("stranger", "other" if setup == "another group" else "g")
            await stranger.join(TopicPartition(BAR, 0))
            if w.service.partitions.get(TP0) is None:
                await w.lead(TP0)
            answer = await stranger.acknowledge(ack(TP0, 0, 9, ACCEPT))
            assert errors(answer) == {TP0: 3}
            counters = w.service.counters
            assert counters.acknowledge_requests.total() == 1
            assert counters.failed_acknowledge_requests.total() == 1
            assert counters.acknowledged.total() == 0


@scenario("REQ-S24")
async def test_acknowledging_records_of_another_member_is_an_invalid_record_state():
    async with world(grpc=True) as w:
        m1, m2 = await warm(w, TP0), await warm(w, TP0, member="m2")
        await w.produce(TP0, 10)
        await m1.fetch()
        assert errors(await m2.acknowledge(ack(TP0, 0, 9, ACCEPT))) == {TP0: 121}
        counters = w.service.counters
        assert counters.acknowledge_requests.total() == 1
        assert counters.failed_acknowledge_requests.total() == 1


@scenario("REQ-S26")
async def test_acknowledgements_are_counted_by_type():
    async with world(grpc=True) as w:
        m1 = await warm(w, TP0)
        await w.produce(TP0, 30)
        await m1.fetch()
        answer = await m1.acknowledge(ack(TP0, 12, 12, ACCEPT), ack(TP0, 15, 20, 2, 3, 2, 2, 3, 2))
        assert errors(answer) == {TP0: 0}
        assert w.service.counters.acknowledged == {
            AcknowledgeType.ACCEPT: 1,
            AcknowledgeType.RELEASE: 4,
            AcknowledgeType.REJECT: 2,
        }


@scenario("REQ-S27")
async def test_the_member_is_checked_before_the_session_and_that_before_the_batches():
    """REQ-2."""
    async with world(grpc=True) as w:
        await warm(w, TP0)
        nobody = w.client("")
        assert (await nobody.acknowledge(epoch=0)).error_code == 42
        somebody = w.client("m1")
        malformed = ack(TP0, 9, 0, ACCEPT)
        assert (await somebody.acknowledge(malformed, epoch=0)).error_code == 123


@scenario("REQ-S29")
async def test_version_1_knows_neither_record_limit_nor_renew():
    async with world(grpc=True) as w:
        m1 = await warm(w, TP0)
        await w.produce(TP0, 10)
        await m1.fetch()
        assert (await m1.fetch(version=1, share_acquire_mode=1)).error_code == 35
        renewing = await m1.fetch(version=1, is_renew_ack=True)
        assert renewing.error_code == 35
        answer = await m1.acknowledge(ack(TP0, 0, 9, RENEW), version=1)
        assert errors(answer) == {TP0: 42}
        assert w.keeper.writes == []


async def test_req_21_a_batch_may_begin_at_the_last_offset_of_the_one_before_and_fails_later():
    async with world() as w:
        m1 = await warm(w, TP0)
        await w.produce(TP0, 10)
        await m1.fetch()
        answer = await m1.acknowledge(ack(TP0, 0, 4, ACCEPT), ack(TP0, 4, 9, ACCEPT))
        assert errors(answer) == {TP0: ErrorCode.INVALID_RECORD_STATE}
