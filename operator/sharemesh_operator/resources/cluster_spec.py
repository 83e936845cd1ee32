"""A ShareCluster, read: defaults are the schema's, set by the API server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sharemesh.ports.cluster import KAFKA_ROLES, Role
from sharemesh_operator.resources.external import External
from sharemesh_operator.resources.kafka_listener import KafkaListenerSpec, kafka_listener_spec
from sharemesh_operator.resources.kafka_spec import KafkaSpec, kafka_spec
from sharemesh_operator.resources.names import FIELDS, PAUSE_ANNOTATION, ROLES, KubeObject
from sharemesh_operator.resources.spec_fields import key, read


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """The pods of one role."""

    pod_template: KubeObject
    replicas: int = key("replicas", 2)
    drain_timeout_s: int = key("drainTimeoutSeconds", 40)
    grace_s: int = key("terminationGracePeriodSeconds", 90)
    max_unavailable: int = key("maxUnavailable", 1)
    shards: int = key("shards", 16)


@dataclass(frozen=True, slots=True)
class Storage:
    """The data directory, one ReadWriteMany claim or a directory of one node; or Kafka."""

    kafka: KafkaSpec | None
    generations_claim: str
    """With Kafka storage, the claim with generations of the state log; empty: there is none."""
    generations_uri: str
    """Where they are in an object store instead; empty: nowhere."""
    claim: str = key("claimName", "")
    node: str = key("node", "")
    host_path: str = key("hostPath", "")

    @property
    def shared_claim(self) -> str:
        """The claim that pods of several nodes mount; empty: there is none."""
        return self.claim or self.generations_claim


@dataclass(frozen=True, slots=True)
class EtcdSpec:
    """Where etcd is; ``secret`` is empty without TLS."""

    endpoints: tuple[str, ...]
    prefix: str = key("prefix", "/sharemesh")
    secret: str = key("tlsSecretName", "")
    session_ttl_s: int = key("sessionTTLSeconds", 10)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The endpoints as host:port."""
        return tuple(each.split("://", 1)[-1] for each in self.endpoints)


@dataclass(frozen=True, slots=True)
class PlacementSpec:
    """How topic-partitions are spread."""

    max_load_percent: int = key("maxLoadPercent", 110)
    moves_per_minute: int = key("maxVoluntaryMovesPerMinute", 60)
    standbys: int = key("standbys", 2)
    settle_s: int = key("settleSeconds", 30)


@dataclass(frozen=True, slots=True)
class TelemetrySpec:
    """Where traces and metrics are sent to; empty: nowhere."""

    endpoint: str = ""
    record_sampling_percent: int = 0


_AUDIT_LOGS = {"File": "file", "Stdout": "stdout", "None": "none"}
"""Destinations of the audit log, as the processes' setting has them."""

_AUDIT_FILE_BYTES, _AUDIT_FILES = 10_485_760, 5
"""The bound of audit files that is shipped."""

_AUDIT_KINDS = 2
"""Changes, and the rest: files of their own, each with the bound (AUD-7)."""


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """Where the audit log of each pod goes, and the bound of its files; 0: as shipped."""

    destination: str = key("destination", "")
    file_bytes: int = key("fileBytes", 0)
    files: int = key("files", 0)

    @property
    def log(self) -> str:
        """The destination as the setting has it; empty: as processes do by themselves."""
        return _AUDIT_LOGS.get(self.destination, "")

    @property
    def bytes_max(self) -> int:
        """The most that the files of one pod take."""
        return _AUDIT_KINDS * (self.files or _AUDIT_FILES) * (self.file_bytes or _AUDIT_FILE_BYTES)


@dataclass(frozen=True, slots=True)
class TokensSpec:
    """Whose ServiceAccount tokens name callers, and as whom the pods show theirs."""

    issuer: str = key("issuer")
    account: str = key("serviceAccountName")
    audience: str = key("audience", "sharemesh")
    keys_url: str = key("keysURL", "https://kubernetes.default.svc/openid/v1/jwks")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The desired state of one ShareCluster."""

    name: str
    namespace: str
    uid: str
    generation: int
    image: str
    version: str
    policy: str
    paused: bool
    roles: Mapping[Role, RoleSpec]
    etcd: EtcdSpec
    storage: Storage
    placement: PlacementSpec
    telemetry: TelemetrySpec
    rack_key: str
    tls_secret: str = ""
    client_auth: bool = False
    tokens: TokensSpec | None = None
    uses_rules: bool = False
    named_super_users: tuple[str, ...] = ()
    audit: AuditSpec = field(default_factory=AuditSpec)
    external: External | None = None
    kafka_listener: KafkaListenerSpec | None = None

    @property
    def audit_volume_bytes(self) -> int:
        """Size of the volume of its own that each pod's audit files need; 0: they need none."""
        needs = self.storage.kafka is not None and self.audit.log == "file"
        return self.audit.bytes_max if needs else 0

    @property
    def cluster_id(self) -> str:
        """The cluster's name in etcd and in the data directory."""
        return f"{self.namespace}.{self.name}"

    @property
    def super_users(self) -> tuple[str, ...]:
        """Principals that access rules do not bind; with tokens the pods are among them."""
        if self.tokens is None:
            return self.named_super_users
        pods = f"User:system:serviceaccount:{self.namespace}:{self.tokens.account}"
        return tuple(dict.fromkeys((*self.named_super_users, pods)))

    @property
    def hands_off(self) -> bool:
        """Whether nothing may be changed: paused, or only to be watched."""
        return self.paused or self.policy != "Managed"

    def workload(self, role: Role) -> str:
        """Return the name of a role's StatefulSet and headless Service."""
        return f"{self.name}-{role}"

    def pod(self, role: Role, ordinal: int) -> str:
        """Return the name of a pod, of its Service, and of its node in the mesh."""
        return f"{self.workload(role)}-{ordinal}"

    @property
    def bootstrap(self) -> str:
        """The address for first contacts inside of Kubernetes."""
        return f"{self.name}-bootstrap.{self.namespace}.svc:9400"

    def listener(self, role: Role) -> KafkaListenerSpec | None:
        """Return the listener for clients of Kafka that pods of a role have, if they have one."""
        return self.kafka_listener if role in KAFKA_ROLES else None

    def kafka_service(self, name: str) -> str:
        """Return the name of the Service for clients of Kafka beside one for those of gRPC."""
        return f"{name}-kafka"

    @property
    def kafka_bootstrap(self) -> str | None:
        """The address for first contacts of clients of Kafka inside; None: there is no listener."""
        if self.kafka_listener is None:
            return None
        service = self.kafka_service(f"{self.name}-bootstrap")
        return f"{service}.{self.namespace}.svc:{self.kafka_listener.port}"


def cluster_spec(body: KubeObject, *, default_image: str) -> ClusterSpec:
    """Return what a ShareCluster object asks for.

    Args:
        body: The object as the API server gives it, defaults filled in.
        default_image: Image where the object names none; ``spec.version`` changes its tag.
    """
    meta, spec = body["metadata"], body["spec"]
    etcd, tls, telemetry = spec["etcd"], spec.get("tls") or {}, spec.get("telemetry") or {}
    authorization = spec.get("authorization") or {}
    roles = {role: spec.get(FIELDS[role]) or {} for role in ROLES}
    version, listener = spec.get("version", ""), spec.get("kafkaListener")
    return ClusterSpec(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta.get("uid", ""),
        generation=meta.get("generation", 0),
        image=spec.get("image") or image_of(version, default_image),
        version=version,
        policy=spec.get("managementPolicy", "Managed"),
        paused=is_paused(body),
        roles={
            role: read(RoleSpec, given, pod_template=given.get("podTemplate") or {})
            for role, given in roles.items()
        },
        etcd=read(EtcdSpec, etcd, endpoints=tuple(etcd["endpoints"])),
        storage=_storage(spec["storage"]),
        placement=read(PlacementSpec, spec.get("placement") or {}),
        telemetry=TelemetrySpec(telemetry.get("otlpEndpoint", ""), _sampling(telemetry)),
        rack_key=roles[Role.SHARE_LEADER].get("rackTopologyKey", "topology.kubernetes.io/zone"),
        tls_secret=tls.get("secretName", ""),
        client_auth=tls.get("clientAuth") == "Required",
        tokens=read(TokensSpec, spec["tokens"]) if spec.get("tokens") else None,
        uses_rules=authorization.get("mode") == "Acl",
        named_super_users=tuple(authorization.get("superUsers") or ()),
        audit=read(AuditSpec, spec.get("audit") or {}),
        external=read(External, spec["external"]) if spec.get("external") else None,
        kafka_listener=kafka_listener_spec(listener) if listener is not None else None,
    )


def is_paused(body: KubeObject) -> bool:
    """Return whether an object's annotation asks to be left alone."""
    annotations = body["metadata"].get("annotations") or {}
    return annotations.get(PAUSE_ANNOTATION) == "true"


def image_of(version: str, default_image: str) -> str:
    """Return the image that a version names: its tag beside the default image's repository."""
    if not version:
        return default_image
    named = default_image.split("@", 1)[0]
    repository, colon, tag = named.rpartition(":")
    if not colon or "/" in tag:  # no tag; the colon is that of a registry's port
        repository = named
    return f"{repository}:{version}"


def _storage(given: Mapping[str, Any]) -> Storage:
    kafka, generations = given.get("kafka"), given.get("generations") or {}
    return read(
        Storage,
        given,
        kafka=None if kafka is None else kafka_spec(kafka),
        generations_claim=generations.get("claimName", ""),
        generations_uri=generations.get("uri", ""),
    )


def _sampling(telemetry: Mapping[str, Any]) -> int:
    if telemetry.get("traceDetail", "Batch") != "Record":
        return 0
    percent: int = telemetry.get("recordSamplingPercent", 1)
    return percent
