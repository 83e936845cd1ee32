"""The running clusters of this operator, connected once each."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh_operator.cluster.cluster_connection import (
    ClusterConnection,
    ClusterConnectionError,
    ClusterConnectionSettings,
)
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.cluster_status import Problem

Changed = Callable[[str, StateChanges], None]

_log = logging.getLogger(__name__)


class ClusterConnections:
    """Opens and closes the connection to each cluster; ``changed`` hears what moves there."""

    def __init__(self, settings: ClusterConnectionSettings, changed: Changed) -> None:
        self._settings = settings
        self._changed = changed
        self._open: dict[str, tuple[object, ClusterConnection]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._over = False

    @property
    def joined(self) -> int:
        """How many clusters are connected."""
        return len(self._open)

    @property
    def placed(self) -> int:
        """How many of them have this operator as their elected placement controller."""
        return sum(mesh.places for _, mesh in self._open.values())

    async def get(self, spec: ClusterSpec) -> ClusterConnection:
        """Return the connected cluster; a new one if what it was made from changed.

        Raises:
            ClusterConnectionError: It cannot be connected; nothing is left open.
        """
        key = (spec.uid, spec.etcd, spec.tls_secret, spec.placement, _shards(spec))
        async with self._locks.setdefault(spec.name, asyncio.Lock()):
            known = self._open.get(spec.name)
            if known is not None and known[0] == key and not known[1].broken:
                return known[1]
            await self._close(spec.name)
            if self._over:
                raise ClusterConnectionError(
                    Problem("NotElected", "another replica of the operator goes on")
                )
            mesh = ClusterConnection(spec, self._settings, partial(self._changed, spec.name))
            try:
                await mesh.start()
            except BaseException:
                await mesh.close()
                raise
            self._open[spec.name] = (key, mesh)
            return mesh

    async def close(self, name: str) -> None:
        """Leave a cluster that is gone."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            await self._close(name)

    async def close_all(self) -> None:
        """Leave all clusters, at the same time, and connect to none any more: the term is over."""
        self._over = True
        await asyncio.gather(*(self.close(name) for name in list(self._locks)))

    async def _close(self, name: str) -> None:
        known = self._open.pop(name, None)
        if known is not None:
            await known[1].close()
            _log.info("cluster %s: left", name)


def _shards(spec: ClusterSpec) -> tuple[int, ...]:
    return tuple(role.shards for role in spec.roles.values())
