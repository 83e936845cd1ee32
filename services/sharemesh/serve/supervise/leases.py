"""Ending the leases of a process that died, so that others need not wait for them."""

import asyncio
import logging

from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.serve.supervise.child_process import ProcessStatus

REVOKE_TIMEOUT_MS = 2_000

_log = logging.getLogger(__name__)


async def revoke_leases(coordination: Coordination, status: ProcessStatus) -> None:
    """Revoke every lease that a process reported; one that cannot be revoked runs out."""
    leases, status.lease_ids = status.lease_ids, []
    for lease_id in leases:
        try:
            async with asyncio.timeout(REVOKE_TIMEOUT_MS / 1_000):
                await coordination.revoke(lease_id)
        except (CoordinationError, TimeoutError) as error:
            _log.warning(
                "lease not revoked; it runs out by itself",
                extra={"child": status.name, "lease_id": f"{lease_id:x}", "error": error},
            )
