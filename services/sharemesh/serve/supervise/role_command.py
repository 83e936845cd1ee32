"""The command line of a role process, from the settings of its cluster."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from sharemesh.ports.cluster import Role
from sharemesh.serve.settings.fields import names_of
from sharemesh.serve.settings.settings import ServeSettings


def role_command(
    settings: ServeSettings,
    *,
    role: Role,
    node_id: str,
    host: str,
    port: int,
    etcd_endpoints: Sequence[str],
    descriptor: int,
) -> Sequence[str]:
    """Return the command that runs one role; it reports on ``descriptor`` and dies with us."""
    mine = replace(
        settings,
        role=str(role),
        node_id=node_id,
        data_directory=settings.data_directory.resolve(),
        etcd_endpoints=tuple(etcd_endpoints),
        listen_host=host,
        listen_port=port,
        advertised_host=settings.advertised_host,
    )
    return child_command(mine, descriptor)


def child_command(settings: ServeSettings, descriptor: int) -> Sequence[str]:
    """Return the command of a child with exactly these settings."""
    return (
        sys.executable,
        "-m",
        "sharemesh.serve",
        "--parent-pid",
        str(os.getpid()),
        "--report-descriptor",
        str(descriptor),
        *_flags(settings),
    )


def _flags(settings: ServeSettings) -> list[str]:
    flags = []
    for name in names_of(ServeSettings):
        value = getattr(settings, name)
        if value in (None, "", ()):
            continue
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        flags.append(f"--{name.replace('_', '-')}={text}")
    for name, value in settings.configs.items():
        flags += ["--set", f"{name}={value}"]
    return flags
