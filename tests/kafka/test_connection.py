"""One connection to one broker: frames, correlation, versions (spec KBR)."""

import asyncio
import struct

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.kafka.connection import FRAME_BYTES_MAX, IN_FLIGHT_MAX
from sharemesh.kafka.dialing import Dialing
from sharemesh.kafka.messages import milliseconds
from sharemesh.kafka.versions import KafkaRequest
from sharemesh.ports.brokers import (
    BrokerAddress,
    BrokerRefusedError,
    BrokerUnreachableError,
    UnsupportedRequestError,
)
from tests.kafka.scripted_broker import ScriptedBroker, answer, no_error, no_time, says, versions

PRODUCER = KafkaRequest.INIT_PRODUCER_ID
ASKED = {"transactional_id": None, "transaction_timeout": milliseconds(1_000)}


def producer_id(number, **more):
    content = {"throttle_time": no_time(), "error_code": no_error(), "producer_epoch": 0}
    return says(PRODUCER, producer_id=number, **{**content, **more})


async def connected(broker):
    return await Dialing(SystemClock(), "me").open(BrokerAddress(7, "127.0.0.1", broker.port))


async def ask(connection, timeout_ms=5_000):
    return (await connection.call(PRODUCER, ASKED, timeout_ms=timeout_ms)).producer_id


async def test_kbr_1_the_highest_common_version_is_spoken():
    offered = versions({PRODUCER: (0, 4)})
    async with ScriptedBroker(API_VERSIONS=offered, INIT_PRODUCER_ID=producer_id(8)) as broker:
        connection = await connected(broker)
        assert await ask(connection) == 8
        assert broker.asked == [("API_VERSIONS", 3), ("INIT_PRODUCER_ID", 4)]
        connection.close()


@pytest.mark.parametrize("offered", [(0, 2), (6, 9), (0, -1)])
async def test_kbr_1_what_is_not_offered_is_refused_in_words_and_not_sent(offered):
    async with ScriptedBroker(API_VERSIONS=versions({PRODUCER: offered})) as broker:
        connection = await connected(broker)
        with pytest.raises(UnsupportedRequestError, match=r"broker 7 .* InitProducerId .* 3 to 5"):
            await ask(connection)
        assert len(broker.asked) == 1
        connection.close()


async def test_kbr_1_a_broker_that_knows_no_version_3_is_asked_in_version_0():
    def old(version, correlation):
        if version:
            # Answered in version 0 whatever was asked: code 35, no versions.
            return struct.pack(">iihi", 10, correlation, 35, 0)
        return versions()(0, correlation)

    async with ScriptedBroker(API_VERSIONS=old, INIT_PRODUCER_ID=producer_id(8)) as broker:
        connection = await connected(broker)
        assert broker.asked == [("API_VERSIONS", 3), ("API_VERSIONS", 0)]
        assert await ask(connection) == 8
        connection.close()


async def test_kbr_2_without_an_answer_in_time_all_that_wait_end_and_the_connection_is_closed():
    async with ScriptedBroker(INIT_PRODUCER_ID=lambda *_: None) as broker:
        connection = await connected(broker)
        waiting = asyncio.create_task(ask(connection, 60_000))
        with pytest.raises(BrokerUnreachableError, match="did not answer InitProducerId within 50"):
            await ask(connection, 50)
        with pytest.raises(BrokerUnreachableError, match=r"broker 7 at 127.0.0.1:\d+"):
            await waiting
        assert connection.closed
        assert broker.asked.count(("INIT_PRODUCER_ID", 5)) == 2, "sent once each"
        with pytest.raises(BrokerUnreachableError):
            await ask(connection)


async def test_kbr_2_another_requests_answer_is_not_taken():
    def wrong(version, correlation):
        return producer_id(8)(version, correlation + 1)

    async with ScriptedBroker(INIT_PRODUCER_ID=wrong) as broker:
        connection = await connected(broker)
        with pytest.raises(BrokerUnreachableError, match="it answered 3 where 2 was asked"):
            await ask(connection)


async def test_kbr_2_an_answer_that_cannot_be_read_closes_the_connection():
    garbage = struct.pack(">i", 20) + b"\xff" * 20
    async with ScriptedBroker(INIT_PRODUCER_ID=lambda *_: garbage) as broker:
        connection = await connected(broker)
        with pytest.raises(BrokerUnreachableError, match="cannot be used: InitProducerId"):
            await ask(connection)
        assert connection.closed


async def test_kbr_2_the_answer_to_a_cancelled_caller_is_dropped():
    arrived, go = asyncio.Event(), asyncio.Event()
    numbers = iter([8, 9])

    async def slow(version, correlation):
        arrived.set()
        await go.wait()
        return producer_id(next(numbers))(version, correlation)

    async with ScriptedBroker(INIT_PRODUCER_ID=slow) as broker:
        connection = await connected(broker)
        first = asyncio.create_task(ask(connection))
        await arrived.wait()
        second = asyncio.create_task(ask(connection))
        first.cancel()
        go.set()
        assert await second == 9
        assert first.cancelled()
        assert not connection.closed
        connection.close()


async def test_kbr_16_a_connection_that_is_given_up_is_closed_once_nobody_waits_there():
    arrived = asyncio.Event()

    async def silent(version, correlation):
        arrived.set()
        await asyncio.Event().wait()

    async with ScriptedBroker(INIT_PRODUCER_ID=silent) as broker:
        connection = await connected(broker)
        reads = connection.reads
        first, second = (asyncio.create_task(ask(connection)) for _ in range(2))
        await arrived.wait()
        first.cancel()
        connection.give_up(reads)
        assert not connection.closed, "the second one may be answered yet"
        second.cancel()
        connection.give_up(reads - 1)
        assert not connection.closed, "something came since"
        connection.give_up(reads)
        assert connection.closed
        await asyncio.gather(first, second, return_exceptions=True)
        with pytest.raises(BrokerUnreachableError, match="did not answer, and was given up"):
            await ask(connection)


async def test_kbr_3_an_answer_beyond_the_bound_is_not_read():
    huge = struct.pack(">i", FRAME_BYTES_MAX + 1)
    async with ScriptedBroker(INIT_PRODUCER_ID=lambda *_: huge) as broker:
        connection = await connected(broker)
        with pytest.raises(BrokerUnreachableError, match=f"at most {FRAME_BYTES_MAX} are read"):
            await ask(connection)


async def test_an_answer_may_come_in_pieces():
    async def drip(version, correlation):
        return answer(PRODUCER, version, correlation, {
            "throttle_time": no_time(), "error_code": no_error(), "producer_id": 8,
            "producer_epoch": 1,
        })  # fmt: skip

    async with ScriptedBroker(INIT_PRODUCER_ID=drip) as broker:
        connection = await connected(broker)
        whole = await drip(5, 2)
        waiting = connection._send(PRODUCER, 5, ASKED)
        connection._transport.pause_reading()
        for byte in whole:
            connection.get_buffer(-1)[:1] = bytes([byte])
            connection.buffer_updated(1)
        assert (await waiting).producer_epoch == 1
        connection.close()


async def test_kbr_4_more_than_the_bound_wait_to_be_sent():
    go = asyncio.Event()

    async def slow(version, correlation):
        await go.wait()
        return producer_id(8)(version, correlation)

    async with ScriptedBroker(INIT_PRODUCER_ID=slow) as broker:
        connection = await connected(broker)
        asked = [asyncio.create_task(ask(connection)) for _ in range(IN_FLIGHT_MAX + 3)]
        await asyncio.wait(asked, timeout=0, return_when=asyncio.FIRST_COMPLETED)
        while connection.waiting < IN_FLIGHT_MAX:
            await asyncio.wait(asked, timeout=0)
        assert connection.waiting == IN_FLIGHT_MAX
        go.set()
        assert await asyncio.gather(*asked) == [8] * (IN_FLIGHT_MAX + 3)
        connection.close()


class SteppedClock(SystemClock):
    """Time passes by sleeping only."""

    def __init__(self):
        self.now = 0

    def now_ms(self):
        return self.now

    async def sleep_ms(self, duration_ms):
        self.now += duration_ms


async def test_kbr_5_a_throttle_is_obeyed_and_one_that_is_too_long_is_said():
    throttled = producer_id(8, throttle_time=milliseconds(700))
    async with ScriptedBroker(INIT_PRODUCER_ID=throttled) as broker:
        clock = SteppedClock()
        dialing = Dialing(clock, "me")
        connection = await dialing.open(BrokerAddress(7, "127.0.0.1", broker.port))
        await ask(connection)
        with pytest.raises(BrokerRefusedError, match="a pause of 700 ms") as refused:
            await ask(connection, 700)
        assert refused.value.code == 89
        assert len(broker.asked) == 2
        assert clock.now == 0
        await ask(connection, 701)
        assert clock.now == 700
        sent = dialing.traffic.requests
        assert {broker for _, broker in sent} == {"7"}
        assert sorted(sent.values()) == [1, 2]  # versions, and twice an id
        assert dialing.traffic.throttled_ms == {"7": 1_400}
        connection.close()


async def test_a_listener_that_speaks_something_else_is_named():
    async with ScriptedBroker(API_VERSIONS=lambda *_: b"\x15\x03\x03\x00\x02\x02\x46") as broker:
        with pytest.raises(BrokerUnreachableError, match=r"sent TLS instead .* kafka_security"):
            await connected(broker)


async def test_a_listener_that_closes_at_once_is_named():
    async with ScriptedBroker(API_VERSIONS=lambda *_: b"") as broker:
        with pytest.raises(BrokerUnreachableError, match=r"before its first answer: .*kafka_secur"):
            await connected(broker)


async def test_kbr_13_a_listener_that_answers_api_versions_alone_is_named():
    async with ScriptedBroker(INIT_PRODUCER_ID=lambda *_: b"") as broker:
        connection = await connected(broker)
        words = r"\(plaintext\): it closed .* a login first: check that kafka_security is what"
        with pytest.raises(BrokerUnreachableError, match=words):
            await ask(connection)


async def test_kbr_13_a_broker_that_served_and_closes_is_not_suspected():
    async with ScriptedBroker(INIT_PRODUCER_ID=producer_id(8)) as broker:
        connection = await connected(broker)
        assert await ask(connection) == 8
        broker.scripts["INIT_PRODUCER_ID"] = lambda *_: b""
        with pytest.raises(BrokerUnreachableError) as closed:
            await ask(connection)
        assert "kafka_security" not in str(closed.value)
