"""Watches claims in etcd: no two nodes may ever lead a partition in the same leader epoch."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from random import SystemRandom

from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.backends.local.clock import SystemClock
from sharemesh.cluster.store.records import Claim, decode_claim
from sharemesh.ports.coordination import CoordinationError, KeyValue, RangeSnapshot

PREFIX = "/sharemesh/faults/lead/"


@contextlib.asynccontextmanager
async def watched_claims(
    endpoints: tuple[str, ...],
    violations: list[str],
    *,
    judge: bool = True,
    on_claim: Callable[[str, Claim], None] | None = None,
) -> AsyncIterator[None]:
    """Watch while the body runs. With ``judge`` off (etcd goes back in time) do nothing.

    ``on_claim`` hears of each claim, by "topic id/partition".
    """
    if not judge:
        yield
        return
    store = EtcdCoordination(endpoints, clock=SystemClock(), rng=SystemRandom())
    task = asyncio.create_task(_watch(store, violations, on_claim))
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()


async def _watch(
    store: EtcdCoordination, violations: list[str], on_claim: Callable[[str, Claim], None] | None
) -> None:
    leaders: dict[tuple[str, int], str] = {}

    def take(stored: KeyValue | None) -> None:
        if stored is None:
            return
        claim = decode_claim(stored.value)
        place = (stored.key.removeprefix(PREFIX), claim.leader_epoch)
        if on_claim is not None:
            on_claim(place[0], claim)
        before = leaders.setdefault(place, claim.node_id)
        if before != claim.node_id:
            violations.append(
                f"{place[0]} was claimed by {before} and by {claim.node_id} in leader epoch "
                f"{place[1]}"
            )

    while True:
        with contextlib.suppress(CoordinationError):
            async for change in store.watch(PREFIX):
                if isinstance(change, RangeSnapshot):
                    for stored in change.entries:
                        take(stored)
                else:
                    take(change.current)
        await asyncio.sleep(0.1)
