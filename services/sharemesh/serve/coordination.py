"""The coordination store of a process: etcd by its settings, reached or refused in words."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from sharemesh.backends.etcd.connection import EtcdTls
from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.serve.exits import Exit, StartError
from sharemesh.serve.settings import ServeSettings

_RETRY_MS = 50
_PROBE_KEY = "/sharemesh/reachable"


def connect_etcd(
    settings: ServeSettings, endpoints: Sequence[str], *, clock: Clock, rng: Random
) -> EtcdCoordination:
    """Return a client of etcd; nothing is sent yet.

    Raises:
        StartError: SETTINGS; a certificate file cannot be read.
    """
    tls = None
    if settings.etcd_tls_authority is not None or settings.etcd_tls_certificate is not None:
        tls = EtcdTls(
            ca=_read(settings.etcd_tls_authority, "etcd_tls_authority"),
            certificate=_read(settings.etcd_tls_certificate, "etcd_tls_certificate"),
            key=_read(settings.etcd_tls_key, "etcd_tls_key"),
        )
    return EtcdCoordination(endpoints, clock=clock, rng=rng, tls=tls)


async def reach(
    coordination: Coordination, clock: Clock, endpoints: Sequence[str], *, timeout_ms: int
) -> None:
    """Return once the store answers.

    Raises:
        StartError: COORDINATION_UNREACHABLE.
    """
    deadline_ms = clock.now_ms() + timeout_ms
    while True:
        try:
            await coordination.get(_PROBE_KEY)
        except CoordinationError as error:
            if clock.now_ms() >= deadline_ms:
                raise StartError(
                    Exit.COORDINATION_UNREACHABLE,
                    f"etcd at {','.join(endpoints)} does not answer; start it, or correct "
                    "etcd_endpoints",
                ) from error
            await clock.sleep_ms(_RETRY_MS)
        else:
            return


def _read(path: Path | None, name: str) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise StartError(
            Exit.SETTINGS, f"setting {name}: cannot read {path}: {error.strerror}"
        ) from error
