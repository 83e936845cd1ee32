"""Asks the brokers of a Kafka cluster, patiently, from a job that has no loop of its own."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.ports.brokers import (
    EARLIEST_TIMESTAMP,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    UnsupportedRequestError,
)
from sharemesh_spark.reader.data_directory import UnreadableLogError
from sharemesh_spark.reader.kafka_place import BadKafkaPlaceError, KafkaAccess

CLIENT_ID = "sharemesh-spark"
READ_BYTES = 16 * 1024 * 1024
WAIT_MS = 500
PATIENCE_MS = 60_000
RETRY_MS = 200
_OUT_OF_RANGE = 1
_FOR_GOOD = frozenset({29, 31, 58})
"""TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, SASL_AUTHENTICATION_FAILED."""

Answer = TypeVar("Answer")


class _WallClock:
    """Time of this machine (port Clock)."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1_000)  # noqa: TID251 - fills the port


class LogMovedError(Exception):
    """A log begins above what was to be read next: it was pruned meanwhile."""


async def asked(ask: Callable[[], Awaitable[Answer]], what: str) -> Answer:
    """Return an answer; what finds nobody, or the wrong broker, is asked again for a while."""
    clock = _WallClock()
    deadline_ms = clock.now_ms() + PATIENCE_MS
    while True:
        try:
            return await ask()
        except UnsupportedRequestError as error:
            raise UnreadableLogError(f"{what} cannot be read: {error}") from error
        except (BrokerRefusedError, BrokerUnreachableError) as error:
            for_good = isinstance(error, BrokerRefusedError) and error.code in _FOR_GOOD
            if for_good or clock.now_ms() > deadline_ms:
                raise UnreadableLogError(f"{what} cannot be read: {error}") from error
        await clock.sleep_ms(RETRY_MS)


def on_brokers(
    access: KafkaAccess, ask: Callable[[KafkaBrokers], Coroutine[Any, Any, Answer]]
) -> Answer:
    """Ask in a loop of its own, in a thread: whoever calls may run one already."""
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, _with_brokers(access, ask)).result()


async def fetched(brokers: KafkaBrokers, where: BrokerPartition, offset: int, what: str) -> bytes:
    """Return whole batches from the one that holds an offset on, perhaps with a cut one.

    Raises:
        LogMovedError: What is asked for was deleted.
        UnreadableLogError: Nobody answers.
    """

    async def ask() -> bytes:
        try:
            found = await brokers.fetch(where, offset, max_bytes=READ_BYTES, max_wait_ms=WAIT_MS)
        except BrokerRefusedError as error:
            if error.code != _OUT_OF_RANGE:
                raise
            low = await brokers.list_offset(where, EARLIEST_TIMESTAMP)
            if low.offset > offset:
                raise LogMovedError from error
            raise
        if not found.records:
            raise BrokerUnreachableError(f"nothing is readable at offset {offset} yet")
        return found.records

    return await asked(ask, what)


async def _with_brokers(
    access: KafkaAccess, ask: Callable[[KafkaBrokers], Coroutine[Any, Any, Answer]]
) -> Answer:
    try:
        security = access.kafka_security()
    except BadKafkaPlaceError as error:
        raise UnreadableLogError(str(error)) from error
    dialing = Dialing(_WallClock(), CLIENT_ID, security)
    brokers = KafkaBrokers(access.servers, dialing, random.SystemRandom())
    try:
        return await ask(brokers)
    finally:
        await brokers.close()
