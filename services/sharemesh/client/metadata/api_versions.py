"""Which versions of the share RPCs the cluster speaks (spec WIRE-4)."""

from sharemesh.client.errors import ConnectionFailedError
from sharemesh.client.metadata.metadata_cache import MetadataCache
from sharemesh.methods import API_VERSIONS, SHARE_ACKNOWLEDGE
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1.admin_pb2 import ApiVersionsRequest

RENEW_VERSION = 2
FIRST_VERSION = 1
LATEST_VERSION = 2
ASK_TIMEOUT_MS = 3_000


class ApiVersions:
    """Learned before the first share session, so before anything could be renewed."""

    def __init__(self, leaders: MetadataCache, clock: Clock) -> None:
        self._leaders = leaders
        self._clock = clock
        self._latest = LATEST_VERSION

    async def learn(self) -> None:
        """Ask until the cluster answers; one that has no such method speaks the first version."""
        backoff = self._leaders.backoff()
        while True:
            try:
                return await self._ask()
            except ConnectionFailedError as error:
                cause = error.__cause__
                if isinstance(cause, CallFailedError) and cause.failure is Failure.UNIMPLEMENTED:
                    self._latest = FIRST_VERSION
                    return None
            await self._clock.sleep_ms(backoff.next_ms())

    async def _ask(self) -> None:
        request = ApiVersionsRequest(client_name="sharemesh-python")
        response = await self._leaders.call_any(API_VERSIONS, request, timeout_ms=ASK_TIMEOUT_MS)
        for each in response.methods:
            if each.method == SHARE_ACKNOWLEDGE.name:
                self._latest = each.max_version

    @property
    def knows_renew(self) -> bool:
        """Whether the cluster knows RENEW and record_limit."""
        return self._latest >= RENEW_VERSION
