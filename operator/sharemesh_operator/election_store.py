"""The etcd that the operator's replicas are elected in."""

from pathlib import Path
from random import Random

from sharemesh.backends.etcd.connection import EtcdTls
from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.ports.clock import Clock
from sharemesh_operator.settings import OperatorSettings


def connect_election_store(
    settings: OperatorSettings, clock: Clock, rng: Random
) -> EtcdCoordination:
    """Return a client of it; nothing is sent yet.

    Raises:
        OSError: A certificate file cannot be read.
    """
    return EtcdCoordination(settings.etcd_addresses, clock=clock, rng=rng, tls=_tls(settings))


def _tls(settings: OperatorSettings) -> EtcdTls | None:
    if settings.etcd_ca_file is None and settings.etcd_cert_file is None:
        return None
    return EtcdTls(
        ca=_read(settings.etcd_ca_file),
        certificate=_read(settings.etcd_cert_file),
        key=_read(settings.etcd_key_file),
    )


def _read(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()
