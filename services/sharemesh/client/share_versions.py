"""Which versions of the share RPCs the cluster speaks (spec WIRE-4)."""

from sharemesh.client.leaders import Leaders
from sharemesh.methods import API_VERSIONS
from sharemesh.v1.admin_pb2 import ApiVersionsRequest

SHARE_METHOD = "ShareLeader/ShareAcknowledge"
RENEW_VERSION = 2
LATEST_VERSION = 2


class ShareVersions:
    """Asked once per client; until then the latest version is taken for granted."""

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders
        self._latest = LATEST_VERSION

    async def ask(self, *, timeout_ms: int) -> None:
        """Learn the versions.

        Raises:
            ConnectionFailedError: No process answered in time.
        """
        response = await self._leaders.call_any(
            API_VERSIONS, ApiVersionsRequest(client_name="sharemesh-python"), timeout_ms=timeout_ms
        )
        for each in response.methods:
            if each.method.endswith(SHARE_METHOD) and each.max_version:
                self._latest = each.max_version

    @property
    def knows_renew(self) -> bool:
        """Whether the cluster knows RENEW and record_limit."""
        return self._latest >= RENEW_VERSION
