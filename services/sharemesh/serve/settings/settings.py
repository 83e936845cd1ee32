"""What a process needs to know: flags over environment over the configuration file."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.group_config.evaluate import check_cluster_configs
from sharemesh.ports.cluster import Role
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.fields import (
    about,
    build,
    from_environment,
    names_of,
    unknown,
)

ALL_ROLES = "all"
MAX_PORT = 65_535
MAX_SHARDS = 1_000
MAX_PROCESSES = 64
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """One role process; each field's text says what it is for."""

    role: str = field(
        default=ALL_ROLES,
        metadata=about(
            "what this process does", choices=(*(str(role) for role in Role), ALL_ROLES)
        ),
    )
    cluster_id: str = field(
        default="local", metadata=about("name of the cluster, in etcd and in the data directory")
    )
    node_id: str = field(
        default="", metadata=about("unique name of this process; default: role and host name")
    )
    data_directory: Path = field(
        default=Path("sharemesh-data"),
        metadata=about("logs of records and states; shared by the cluster's processes"),
    )
    etcd_endpoints: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "host:port of etcd, comma separated; none: one process with everything in memory"
        ),
    )
    etcd_prefix: str = field(
        default="/sharemesh",
        metadata=about("where the keys of all clusters lie in etcd; the same for all processes"),
    )
    etcd_tls_authority: Path | None = field(
        default=None, metadata=about("PEM file: whom etcd's certificate is from")
    )
    etcd_tls_certificate: Path | None = field(
        default=None, metadata=about("PEM file: client certificate for etcd")
    )
    etcd_tls_key: Path | None = field(
        default=None, metadata=about("PEM file: key of that certificate")
    )
    listen_host: str = field(
        default="127.0.0.1", metadata=about("address to listen on; 0.0.0.0 is all")
    )
    listen_port: int = field(
        default=9400, metadata=about("port to listen on; 0 is any", minimum=0, maximum=MAX_PORT)
    )
    advertised_host: str = field(
        default="", metadata=about("host that others reach this process by")
    )
    advertised_port: int = field(
        default=0,
        metadata=about(
            "port that others reach this process by; 0 is the one listened on",
            minimum=0,
            maximum=MAX_PORT,
        ),
    )
    advertised_port_base: int = field(
        default=0,
        metadata=about(
            "instead of advertised_port: the port of the process whose node id ends in 0, counted "
            "up by the number at the end of the node id; 0 is none",
            minimum=0,
            maximum=MAX_PORT,
        ),
    )
    health_port: int = field(
        default=-1,
        metadata=about(
            "port for health without TLS; -1 is none, 0 is any", minimum=-1, maximum=MAX_PORT
        ),
    )
    rack: str = field(default="", metadata=about("failure domain of this process, for placement"))
    group_shards: int = field(
        default=4,
        metadata=about(
            "shards of the group coordinators; fixed at creation", minimum=1, maximum=MAX_SHARDS
        ),
    )
    state_shards: int = field(
        default=8,
        metadata=about(
            "shards of the share coordinators; fixed at creation", minimum=1, maximum=MAX_SHARDS
        ),
    )
    session_ttl_ms: int = field(
        default=10_000,
        metadata=about("life of the etcd lease without keep-alive", minimum=2_000, maximum=600_000),
    )
    drain_timeout_ms: int = field(
        default=10_000,
        metadata=about("time for lock holders when stopping", minimum=0, maximum=HOUR_MS),
    )
    disk_threads: int = field(
        default=4, metadata=about("jobs on the disk at the same time", minimum=1, maximum=64)
    )
    durability: str = field(
        default="fsync",
        metadata=about(
            "os: confirm without fsync, a power cut loses records", choices=("fsync", "os")
        ),
    )
    tls_certificate: Path | None = field(
        default=None, metadata=about("PEM file: certificate of this process")
    )
    tls_key: Path | None = field(default=None, metadata=about("PEM file: key of that certificate"))
    tls_authority: Path | None = field(
        default=None, metadata=about("PEM file: whose client certificates are taken")
    )
    tls_client_certificates: str = field(
        default="required",
        metadata=about(
            "with tls_authority, whether clients must show certificates of it",
            choices=("required", "none"),
        ),
    )
    authorizer: str = field(
        default="allow-all",
        metadata=about(
            "acl: only what access rules allow; the same for all processes of a cluster",
            choices=("allow-all", "acl"),
        ),
    )
    super_users: tuple[str, ...] = field(
        default=(),
        metadata=about("principals that access rules do not bind, User:<name>, comma separated"),
    )
    cluster_secret_file: Path | None = field(
        default=None,
        metadata=about("file with a secret by which the cluster's processes know each other"),
    )
    principal_header: str = field(
        default="",
        metadata=about(
            "metadata key that names the user of callers without certificate; only behind a proxy"
        ),
    )
    reflection: bool = field(default=True, metadata=about("whether gRPC reflection answers"))
    log_format: str = field(
        default="text", metadata=about("form of log lines", choices=("text", "json"))
    )
    log_level: str = field(
        default="info",
        metadata=about("least level that is logged", choices=("debug", "info", "warning", "error")),
    )
    metrics_port: int = field(
        default=-1,
        metadata=about(
            "port for Prometheus without TLS; -1 is none, 0 is any", minimum=-1, maximum=MAX_PORT
        ),
    )
    partition_labels: bool = field(
        default=False, metadata=about("whether metrics are kept apart by partition")
    )
    metric_series_max: int = field(
        default=2_000,
        metadata=about(
            "series of one metric; more are counted as other", minimum=10, maximum=1_000_000
        ),
    )
    telemetry_endpoint: str = field(
        default="",
        metadata=about("OTLP collector, http://host:port or https://host:port; none: no export"),
    )
    trace_directory: Path | None = field(
        default=None, metadata=about("write spans to files there instead, one JSON object a line")
    )
    tracing: bool = field(
        default=True, metadata=about("spans of batches, if there is somewhere to send them")
    )
    record_sampling_percent: int = field(
        default=0, metadata=about("records that get spans of their own", minimum=0, maximum=100)
    )
    configs: Mapping[str, str] = field(default_factory=dict)
    """Settings of the cluster by Kafka's names (spec CFG), from the file's ``[settings]``."""

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles of this process."""
        return tuple(Role) if self.role == ALL_ROLES else (Role(self.role),)

    @property
    def port_to_advertise(self) -> int:
        """The port that others are told; 0: the one listened on."""
        if not self.advertised_port_base:
            return self.advertised_port
        number = self.node_id.rpartition("-")[2]
        return self.advertised_port_base + (int(number) if number.isdecimal() else 0)

    @property
    def in_memory(self) -> bool:
        """Whether coordination lives and dies with this one process."""
        return not self.etcd_endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSettings:
    """The local cluster of ``sharemesh up``: how many processes, and where."""

    host: str = field(default="127.0.0.1", metadata=about("address all processes listen on"))
    base_port: int = field(
        default=9400,
        metadata=about(
            "first process's port, the others follow; 0: any free ports",
            minimum=0,
            maximum=MAX_PORT - MAX_PROCESSES,
        ),
    )
    etcd_port: int = field(
        default=0,
        metadata=about("port of the etcd that is started; 0 is any", minimum=0, maximum=MAX_PORT),
    )
    group_coordinators: int = field(
        default=2, metadata=about("processes", minimum=1, maximum=MAX_PROCESSES)
    )
    share_leaders: int = field(
        default=3, metadata=about("processes", minimum=1, maximum=MAX_PROCESSES)
    )
    share_coordinators: int = field(
        default=2, metadata=about("processes", minimum=1, maximum=MAX_PROCESSES)
    )
    controllers: int = field(
        default=1, metadata=about("processes", minimum=1, maximum=MAX_PROCESSES)
    )
    start_timeout_ms: int = field(
        default=60_000,
        metadata=about("time until all processes must be ready", minimum=1_000, maximum=HOUR_MS),
    )
    stop_timeout_ms: int = field(
        default=25_000,  # turns of a drain, its lock holders, and the last state writes
        metadata=about("time to stop before processes are killed", minimum=100, maximum=HOUR_MS),
    )

    def count(self, role: Role) -> int:
        """Return how many processes of a role run."""
        counts = {
            Role.CONTROLLER: self.controllers,
            Role.SHARE_COORDINATOR: self.share_coordinators,
            Role.GROUP_COORDINATOR: self.group_coordinators,
            Role.SHARE_LEADER: self.share_leaders,
        }
        return counts[role]


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a configuration file says, by its sections."""

    serve: Mapping[str, object] = field(default_factory=dict)
    up: Mapping[str, object] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    name: str = "the configuration file"


def read_file(path: Path | None) -> ConfigFile:
    """Return the sections of a TOML or YAML file (none: empty).

    Raises:
        StartError: SETTINGS; unreadable, malformed, or a section is no table.
    """
    if path is None:
        return ConfigFile()
    tree = _parsed(path)
    up = _table(tree, "up", path)
    configs = {name: str(_plain(value)) for name, value in _flat(_table(tree, "settings", path))}
    return ConfigFile(tree, up, configs, str(path))


def serve_settings(
    flags: Mapping[str, object], environment: Mapping[str, str], file: ConfigFile
) -> ServeSettings:
    """Return the settings of one process, checked one by one and against each other.

    Raises:
        StartError: SETTINGS, naming setting, value and what to do.
    """
    _check_names(file)
    given = dict(file.serve) | from_environment(ServeSettings, environment)
    given |= {name: value for name, value in flags.items() if name in names_of(ServeSettings)}
    given["configs"] = _configs(file, flags.get("configs"))
    settings = build(ServeSettings, given, source="the settings")
    _check_together(settings)
    return settings


def up_settings(flags: Mapping[str, object], file: ConfigFile) -> UpSettings:
    """Return the settings of the local cluster.

    Raises:
        StartError: SETTINGS, naming setting, value and what to do.
    """
    given = dict(file.up)
    given |= {name: value for name, value in flags.items() if name in names_of(UpSettings)}
    return build(UpSettings, given, source=f"[up] of {file.name}")


def _check_names(file: ConfigFile) -> None:
    for name in file.serve:
        if name not in names_of(ServeSettings):
            raise unknown(name, (*names_of(ServeSettings), "settings", "up"), file.name)


def _configs(file: ConfigFile, flags: object) -> dict[str, str]:
    configs = dict(file.configs)
    for pair in flags if isinstance(flags, list) else ():
        name, equals, value = str(pair).partition("=")
        if not equals:
            raise StartError(ExitCode.SETTINGS, f"--set {pair}: write it as name=value")
        configs[name.strip()] = value.strip()
    try:
        return check_cluster_configs(configs)
    except RefusedError as error:
        raise StartError(ExitCode.SETTINGS, error.message) from error


def _check_together(settings: ServeSettings) -> None:
    if settings.in_memory and settings.role != ALL_ROLES:
        raise StartError(
            ExitCode.SETTINGS,
            f"role {settings.role} needs etcd: set etcd_endpoints to host:port, or use role all",
        )
    for endpoint in settings.etcd_endpoints:
        if not endpoint.rpartition(":")[2].isdecimal():
            raise StartError(
                ExitCode.SETTINGS, f"setting etcd_endpoints: {endpoint!r} is not host:port"
            )
    if not settings.cluster_id or "/" in settings.cluster_id:
        raise StartError(
            ExitCode.SETTINGS,
            f"setting cluster_id: value {settings.cluster_id!r} is empty or holds a slash",
        )
    for one, other in (
        ("tls_certificate", "tls_key"),
        ("etcd_tls_certificate", "etcd_tls_key"),
    ):
        if (getattr(settings, one) is None) != (getattr(settings, other) is None):
            raise StartError(ExitCode.SETTINGS, f"settings {one} and {other} go together; set both")
    if settings.tls_authority is not None and settings.tls_certificate is None:
        raise StartError(
            ExitCode.SETTINGS, "setting tls_authority needs tls_certificate and tls_key as well"
        )
    wrong = [name for name in settings.super_users if not name.startswith("User:")]
    if wrong:
        raise StartError(
            ExitCode.SETTINGS, f"setting super_users: {wrong[0]!r} is not of the form User:<name>"
        )
    if settings.listen_host in {"0.0.0.0", "::"} and not settings.advertised_host:  # noqa: S104
        raise StartError(
            ExitCode.SETTINGS,
            f"listen_host {settings.listen_host} is no address to reach: set advertised_host",
        )


def _parsed(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(ExitCode.SETTINGS, f"cannot read {path}: {error}") from error
    if path.suffix.lower() in {".yaml", ".yml"}:
        return _parsed_yaml(path, text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StartError(ExitCode.SETTINGS, f"{path} is not TOML: {error}") from error


def _parsed_yaml(path: Path, text: str) -> dict[str, object]:
    try:
        import yaml
    except ImportError as error:
        raise StartError(
            ExitCode.SETTINGS, f"{path} needs the package pyyaml: install it or write TOML"
        ) from error
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        line = " ".join(str(error).split())
        raise StartError(ExitCode.SETTINGS, f"{path} is not YAML: {line}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise StartError(ExitCode.SETTINGS, f"{path} holds no mapping of names to values")
    return {str(name): value for name, value in tree.items()}


def _table(tree: dict[str, object], name: str, path: Path) -> dict[str, object]:
    table = tree.pop(name, {})
    if not isinstance(table, dict):
        raise StartError(ExitCode.SETTINGS, f"{name} in {path} is no table of names and values")
    return table


def _flat(table: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Return dotted names: TOML reads ``group.share.max.size = 1`` as nested tables."""
    pairs: list[tuple[str, object]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            pairs += _flat(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, value))
    return pairs


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
