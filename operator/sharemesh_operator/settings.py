"""What the operator needs to know: flags, each also a variable SHAREMESH_OPERATOR_<NAME>."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "SHAREMESH_OPERATOR_"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of the pod's own network


class SettingsError(Exception):
    """A setting is missing or wrong; the message names it."""


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """One operator process."""

    namespace: str
    identity: str
    etcd_endpoints: tuple[str, ...]
    image: str
    spark_image: str = ""
    etcd_prefix: str = "/sharemesh-operator"
    etcd_ca_file: Path | None = None
    etcd_cert_file: Path | None = None
    etcd_key_file: Path | None = None
    session_ttl_ms: int = 10_000
    secrets_directory: Path = Path("/etc/sharemesh/secrets")
    """Secrets that ShareClusters name, each mounted as a folder of its name by the kubelet."""
    kubeconfig: Path | None = None
    listen_host: str = EVERY_ADDRESS
    health_port: int = 8080
    metrics_port: int = 9090
    telemetry_endpoint: str = ""
    log_format: str = "text"
    log_level: str = "info"
    guard: bool = False
    """Run the operator as a child of this process, which revokes its leases if it dies."""
    parent_pid: int | None = None
    report_descriptor: int | None = None
    """Given by the guard to its child: whom to die with, and where to tell leases."""

    @property
    def etcd_addresses(self) -> tuple[str, ...]:
        """The endpoints as host:port."""
        return tuple(each.split("://", 1)[-1] for each in self.etcd_endpoints)


_FLAGS: tuple[tuple[str, str, str], ...] = (
    ("namespace", "namespace that is watched (default: POD_NAMESPACE)", ""),
    ("identity", "name of this process, unique (default: POD_NAME)", ""),
    ("etcd-endpoints", "etcd for the election: host:port or URLs, comma separated", ""),
    ("etcd-prefix", "where the election's keys lie", "/sharemesh-operator"),
    ("etcd-ca-file", "PEM file: whom etcd's certificate is from", ""),
    ("etcd-cert-file", "PEM file: client certificate for etcd", ""),
    ("etcd-key-file", "PEM file: key of that certificate", ""),
    ("session-ttl-ms", "life of the etcd lease without keep-alive", "10000"),
    ("image", "image of role pods where a ShareCluster names none", ""),
    ("spark-image", "image of Spark jobs", ""),
    ("secrets-directory", "folder with the Secrets that ShareClusters name", ""),
    ("kubeconfig", "kubeconfig file; default: the pod's own service account", ""),
    ("listen-host", "address of the health and metrics ports", EVERY_ADDRESS),
    ("health-port", "port of /healthz and /readyz; 0 is any", "8080"),
    ("metrics-port", "port of /metrics; 0 is any", "9090"),
    ("telemetry-endpoint", "spans and metrics by OTLP there: http://host:port", ""),
    ("log-format", "text or json", "text"),
    ("log-level", "debug, info, warning or error", "info"),
)
_STAND_INS = {"namespace": "POD_NAMESPACE", "identity": "POD_NAME"}


def operator_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> OperatorSettings:
    """Return the settings of a command line over those of the environment.

    Raises:
        SettingsError: One is missing, or no number.
    """
    parser = argparse.ArgumentParser(
        prog="sharemesh-operator", description="Run the Kubernetes operator of Sharemesh."
    )
    for name, text, default in _FLAGS:
        shown = f" (default: {default})" if default else ""
        parser.add_argument(f"--{name}", default=None, metavar="VALUE", help=text + shown)
    parser.add_argument(
        "--guard", action="store_true", help="run it as a child, and revoke its leases if it dies"
    )
    for name in ("--parent-pid", "--report-descriptor"):
        parser.add_argument(name, type=int, default=None, help=argparse.SUPPRESS)
    flags = vars(parser.parse_args(arguments))
    given = {name: _value(name, flags, environment) or default for name, _, default in _FLAGS}
    for name in ("namespace", "identity", "etcd-endpoints", "image"):
        if not given[name]:
            variable = PREFIX + name.upper().replace("-", "_")
            raise SettingsError(f"setting {name} is missing; give --{name} or {variable}")
    return OperatorSettings(
        namespace=given["namespace"],
        identity=given["identity"],
        etcd_endpoints=tuple(each.strip() for each in given["etcd-endpoints"].split(",")),
        image=given["image"],
        spark_image=given["spark-image"],
        etcd_prefix=given["etcd-prefix"].rstrip("/"),
        etcd_ca_file=_path(given["etcd-ca-file"]),
        etcd_cert_file=_path(given["etcd-cert-file"]),
        etcd_key_file=_path(given["etcd-key-file"]),
        session_ttl_ms=_number("session-ttl-ms", given, least=2_000, most=600_000),
        secrets_directory=Path(given["secrets-directory"] or "/etc/sharemesh/secrets"),
        kubeconfig=_path(given["kubeconfig"]),
        listen_host=given["listen-host"],
        health_port=_number("health-port", given, least=0, most=65_535),
        metrics_port=_number("metrics-port", given, least=0, most=65_535),
        telemetry_endpoint=given["telemetry-endpoint"],
        log_format=_choice("log-format", given, ("text", "json")),
        log_level=_choice("log-level", given, ("debug", "info", "warning", "error")),
        guard=flags["guard"],
        parent_pid=flags["parent_pid"],
        report_descriptor=flags["report_descriptor"],
    )


def _value(name: str, flags: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    flag = flags[name.replace("-", "_")]
    if flag is not None:
        return str(flag)
    variable = environment.get(PREFIX + name.upper().replace("-", "_"))
    return variable or environment.get(_STAND_INS.get(name, ""))


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _choice(name: str, given: Mapping[str, str], choices: tuple[str, ...]) -> str:
    if given[name] not in choices:
        raise SettingsError(f"setting {name}: {given[name]!r} is not one of {', '.join(choices)}")
    return given[name]


def _number(name: str, given: Mapping[str, str], *, least: int, most: int) -> int:
    text = given[name]
    if not text.isdecimal() or not least <= int(text) <= most:
        raise SettingsError(f"setting {name}: {text!r} is not a number from {least} to {most}")
    return int(text)
