"""Settings of an operator process: flags, each also a variable SHAREMESH_OPERATOR_<NAME>."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sharemesh.serve.settings.settings import MAX_PORT, ServeSettings, about, setting
from sharemesh.serve.settings.sources import add_flags, build, from_environment

ENVIRONMENT_PREFIX = "SHAREMESH_OPERATOR_"
SOURCE = f"the flags and variables {ENVIRONMENT_PREFIX}<NAME> of the operator"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of the pod's own network

_POD_VARIABLES = {"namespace": "POD_NAMESPACE", "identity": "POD_NAME"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """One operator process; each field's text says what it is for."""

    namespace: str = field(metadata=about("namespace that is watched (default: POD_NAMESPACE)"))
    identity: str = field(metadata=about("unique name of this process (default: POD_NAME)"))
    etcd_endpoints: tuple[str, ...] = field(
        metadata=about("etcd for the election: host:port or URLs, comma separated")
    )
    etcd_prefix: str = setting("where the keys of the election lie", "/sharemesh-operator")
    etcd_ca_file: Path | None = setting("PEM file: whom etcd's certificate is from", None)
    etcd_cert_file: Path | None = setting("PEM file: client certificate for etcd", None)
    etcd_key_file: Path | None = setting("PEM file: key of that certificate", None)
    session_ttl_ms: int = setting(
        "life of the etcd lease without keep-alive", 10_000, minimum=2_000, maximum=600_000
    )
    image: str = field(metadata=about("image of role pods where a ShareCluster names none"))
    spark_image: str = setting("image of Spark jobs", "")
    secrets_directory: Path = setting(
        "folder with the Secrets that ShareClusters name, each mounted as a folder of its name",
        Path("/etc/sharemesh/secrets"),
    )
    token_file: Path | None = setting(
        "file with the bearer token that is shown to clusters with tokens", None
    )
    kubeconfig: Path | None = setting(
        "kubeconfig file; default: the pod's own service account", None
    )
    listen_host: str = setting("address of the health and metrics ports", EVERY_ADDRESS)
    health_port: int = setting(
        "port of /healthz and /readyz; 0 is any", 8080, minimum=0, maximum=MAX_PORT
    )
    metrics_port: int = setting("port of /metrics; 0 is any", 9090, minimum=0, maximum=MAX_PORT)
    telemetry_endpoint: str = setting(
        "where spans and metrics are sent by OTLP: http://host:port", ""
    )
    log_format: str = setting("format of log lines", "text", choices=("text", "json"))
    log_level: str = setting(
        "least severe level shown", "info", choices=("debug", "info", "warning", "error")
    )
    guard: bool = False
    """Run the operator as a child of this process, which revokes its leases if it dies."""
    parent_pid: int | None = None
    report_descriptor: int | None = None
    """Given by the guard to its child: whom to die with, and where to report leases."""

    @property
    def etcd_addresses(self) -> tuple[str, ...]:
        """The endpoints as host:port."""
        return tuple(each.split("://", 1)[-1] for each in self.etcd_endpoints)

    def serve_settings(self) -> ServeSettings:
        """Return the settings that the operator shares with role processes: etcd, telemetry."""
        return ServeSettings(
            cluster_id=self.namespace,
            etcd_tls_authority=self.etcd_ca_file,
            etcd_tls_certificate=self.etcd_cert_file,
            etcd_tls_key=self.etcd_key_file,
            listen_host=self.listen_host,
            metrics_port=self.metrics_port,
            telemetry_endpoint=self.telemetry_endpoint,
        )


def operator_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> OperatorSettings:
    """Return the settings of a command line over those of the environment; empty texts are none.

    Raises:
        StartError: SETTINGS; one is missing, of the wrong kind or out of bounds.
    """
    parser = argparse.ArgumentParser(
        prog="sharemesh-operator", description="Run the Kubernetes operator of Sharemesh."
    )
    add_flags(parser, OperatorSettings)
    parser.add_argument(
        "--guard", action="store_true", help="run it as a child, and revoke its leases if it dies"
    )
    for name in ("--parent-pid", "--report-descriptor"):
        parser.add_argument(name, type=int, default=None, help=argparse.SUPPRESS)
    pod = {name: environment.get(variable) for name, variable in _POD_VARIABLES.items()}
    variables = from_environment(OperatorSettings, environment, prefix=ENVIRONMENT_PREFIX)
    given: dict[str, object] = {}
    for source in (pod, variables, vars(parser.parse_args(arguments))):
        given |= {name: value for name, value in source.items() if value not in (None, "")}
    return build(OperatorSettings, given, source=SOURCE)
