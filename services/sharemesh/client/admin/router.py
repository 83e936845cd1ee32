"""How admin requests find who answers them, and are repeated while that changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.config import ClientConfig, admin_config
from sharemesh.client.environment import ClientEnvironment, real_environment
from sharemesh.client.errors import (
    ConnectionFailedError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    SharemeshError,
    UnknownTopicOrPartitionError,
    error_for,
)
from sharemesh.client.metadata.metadata_cache import MetadataCache
from sharemesh.client.obeying_caller import ObeyingCaller
from sharemesh.domain.errors import ErrorCode, coordinator_moved, leader_moved
from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import REFUSALS, CallFailedError, Failure

_RETURNED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors of a leader that are returned at once; consumers retry them."""
_COORDINATOR_ROLE = "group-coordinator"


class AdminRouter:
    """Routes the requests of one admin client; every call ends after the API time-out."""

    def __init__(self, config: ClientConfig, environment: ClientEnvironment) -> None:
        self._clock = environment.clock
        self._caller = ObeyingCaller(environment.open_caller(), environment.clock)
        self._timeout_ms = config.number("default.api.timeout.ms")
        self.leaders = MetadataCache(environment, config, self._caller, patient=False)
        self.throttled = self._caller.throttled

    async def close(self) -> None:
        """Close the connections."""
        await self._caller.close()

    def _left_ms(self, deadline_ms: int) -> int:
        return max(deadline_ms - self._clock.now_ms(), 1)

    async def any(self, method: Method[Request, Response], request: Request) -> Response:
        """Ask any process.

        Raises:
            ConnectionFailedError: None answered in time.
        """
        return await self.leaders.call_any(method, request, timeout_ms=self._timeout_ms)

    async def at(
        self, address: str, method: Method[Request, Response], request: Request
    ) -> Response:
        """Ask one process.

        Raises:
            ConnectionFailedError: It did not answer in time.
            ThrottlingQuotaExceededError: A quota asks to wait for longer than the time-out.
        """
        await self._caller.until_free(address, self._clock.now_ms() + self._timeout_ms)
        try:
            return await self._caller.call(
                method, request, to=address, timeout_ms=min(method.deadline_ms, self._timeout_ms)
            )
        except CallFailedError as error:
            raise ConnectionFailedError(str(error)) from error

    async def controller(
        self,
        method: Method[Request, Response],
        request: Request,
        codes: Callable[[Response], Iterable[int]],
    ) -> Response:
        """Ask any process, and the controller itself if that is what they say."""
        deadline_ms = self._clock.now_ms() + self._timeout_ms
        backoff = self.leaders.backoff()
        response = await self.any(method, request)
        while ErrorCode.NOT_CONTROLLER in codes(response):
            wait_ms = backoff.next_ms()
            if self._clock.now_ms() + wait_ms >= deadline_ms:
                return response
            await self._clock.sleep_ms(wait_ms)
            await self.leaders.refresh([], timeout_ms=self._left_ms(deadline_ms))
            address = self.leaders.address(self.leaders.controller_id)
            if address is None:
                continue
            await self._caller.until_free(address, deadline_ms)
            try:
                response = await self._caller.call(
                    method, request, to=address, timeout_ms=self._left_ms(deadline_ms)
                )
            except CallFailedError:
                continue
        return response

    async def group(
        self,
        group_id: str,
        method: Method[Request, Response],
        request: Request,
        code: Callable[[Response], int],
    ) -> Response:
        """Ask the coordinator of a group, again while it moves or loads.

        A request that may not be repeated is not, once it may have reached the coordinator.

        Raises:
            ConnectionFailedError: Nobody answered in time.
            NetworkError: The connection was lost and it is not known whether it took effect.
            ThrottlingQuotaExceededError: A quota asks to wait for longer than the time-out.
        """
        deadline_ms = self._clock.now_ms() + self._timeout_ms
        backoff = self.leaders.backoff()
        while True:
            address = await self.leaders.coordinator(
                group_id, timeout_ms=self._left_ms(deadline_ms)
            )
            await self._caller.until_free(address, deadline_ms)
            why = ""
            try:
                response = await self._caller.call(
                    method,
                    request,
                    to=address,
                    timeout_ms=min(method.deadline_ms, self._left_ms(deadline_ms)),
                )
                if not coordinator_moved(code(response)):
                    return response
            except CallFailedError as error:
                self._check_repeatable(method.name, error, idempotent=method.idempotent)
                why = str(error)
            self.leaders.forget_coordinator(group_id)
            wait_ms = backoff.next_ms()
            if self._clock.now_ms() + wait_ms >= deadline_ms:
                if why:
                    raise ConnectionFailedError(f"coordinator of group {group_id}: {why}")
                return response
            await self._clock.sleep_ms(wait_ms)

    @staticmethod
    def _check_repeatable(name: str, error: CallFailedError, *, idempotent: bool) -> None:
        if error.failure in REFUSALS | {Failure.UNIMPLEMENTED}:
            raise ConnectionFailedError(str(error)) from error
        if error.failure is Failure.DEADLINE_EXCEEDED and not idempotent:
            raise RequestTimedOutError(
                f"{name}: no answer in time; it may have taken effect: check before you repeat it"
            ) from error

    async def every_coordinator(
        self,
        method: Method[Request, Response],
        request: Request,
        missing: Callable[[Sequence[Response]], SharemeshError | None],
    ) -> Sequence[Response]:
        """Ask every process that coordinates groups, again while something is missing.

        Args:
            method: What is asked.
            request: Of each process.
            missing: Returns what is not in the answers, None if they are whole.

        Raises:
            SharemeshError: What is missing still, at the end of the time-out.
            ConnectionFailedError: None answered.
            ThrottlingQuotaExceededError: A quota asks to wait for longer than the time-out.
        """
        deadline_ms = self._clock.now_ms() + self._timeout_ms
        backoff = self.leaders.backoff()
        while True:
            answers = await self._coordinators(method, request, deadline_ms)
            problem = missing(answers)
            if problem is None:
                return answers
            wait_ms = backoff.next_ms()
            if self._clock.now_ms() + wait_ms >= deadline_ms:
                raise problem
            await self._clock.sleep_ms(wait_ms)

    async def _coordinators(
        self, method: Method[Request, Response], request: Request, deadline_ms: int
    ) -> Sequence[Response]:
        """Ask every process that coordinates groups; one that cannot be reached is left out."""
        await self.leaders.refresh([], timeout_ms=self._left_ms(deadline_ms))
        answers: list[Response] = []
        failure: CallFailedError | None = None
        for address in self.leaders.addresses_of_role(_COORDINATOR_ROLE):
            await self._caller.until_free(address, deadline_ms)
            try:
                answer = await self._caller.call(
                    method,
                    request,
                    to=address,
                    timeout_ms=min(method.deadline_ms, self._left_ms(deadline_ms)),
                )
                answers.append(answer)
            except CallFailedError as error:
                failure = error
        if not answers:
            raise ConnectionFailedError(
                f"no group coordinator answered ({failure or 'none is running'})"
            )
        return answers

    async def leader(
        self,
        where: TopicPartition,
        method: Method[Request, Response],
        make: Callable[[bytes], Request],
        code: Callable[[Response], int],
    ) -> Response:
        """Ask the leader of a partition, again while it moves; ``make`` gets the topic id.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic or partition.
            ConnectionFailedError: Nobody answered in time.
            NotLeaderOrFollowerError: There was no leader in time.
            ThrottlingQuotaExceededError: A quota asks to wait for longer than the time-out.
        """
        deadline_ms = self._clock.now_ms() + self._timeout_ms
        backoff = self.leaders.backoff()
        while True:
            topic_id = await self.topic_id(where, timeout_ms=self._left_ms(deadline_ms))
            problem: SharemeshError = NotLeaderOrFollowerError("has no leader", about=str(where))
            found = self.leaders.leader(topic_id, where.partition)
            address = None if found is None else self.leaders.address(found.node_id)
            if address is not None:
                await self._caller.until_free(address, deadline_ms)
                try:
                    response = await self._caller.call(
                        method, make(topic_id), to=address, timeout_ms=self._left_ms(deadline_ms)
                    )
                except CallFailedError as error:
                    self._check_repeatable(method.name, error, idempotent=method.idempotent)
                    problem = ConnectionFailedError(f"leader of {where}: {error}")
                else:
                    if not leader_moved(code(response)) or code(response) in _RETURNED:
                        return response
                    problem = error_for(code(response), about=str(where))
            wait_ms = backoff.next_ms()
            if self._clock.now_ms() + wait_ms >= deadline_ms:
                raise problem
            await self._clock.sleep_ms(wait_ms)

    async def topic_id(self, where: TopicPartition, *, timeout_ms: int) -> bytes:
        """Return the id of a topic, read from the cluster.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic or partition.
        """
        await self.leaders.refresh([where.topic], timeout_ms=timeout_ms)
        topic = self.leaders.topic(where.topic)
        if topic is None:
            raise UnknownTopicOrPartitionError("does not exist", about=f"topic {where.topic}")
        if not 0 <= where.partition < topic.partitions:
            raise UnknownTopicOrPartitionError(
                f"partition {where.partition} does not exist: the topic has {topic.partitions}",
                about=f"topic {where.topic}",
            )
        return topic.topic_id


class AdminConnection:
    """The connections of one admin client, opened by its first call."""

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        self._config = admin_config(config)
        self._environment = environment or real_environment(self._config)
        self._made: AdminRouter | None = None

    @property
    def _calls(self) -> AdminRouter:
        if self._made is None:
            self._made = AdminRouter(self._config, self._environment)
        return self._made

    def metrics(self) -> Mapping[str, int]:
        """Return how long quotas make calls wait (spec QUO-11), in milliseconds."""
        throttled = None if self._made is None else self._made.throttled
        return {
            "admin-throttle-time-avg": throttled.average_ms if throttled is not None else 0,
            "admin-throttle-time-max": throttled.max_ms if throttled is not None else 0,
        }

    async def close(self) -> None:
        """Close the connections. Repeating it is fine."""
        if self._made is not None:
            await self._made.close()
            self._made = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
