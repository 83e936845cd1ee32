"""A ShareCluster, read: defaults are the schema's, set by the API server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.names import FIELDS, PAUSE_ANNOTATION, ROLES, KubeObject

DRAIN_TIMEOUT_S = 40
GRACE_S = 90
SHARDS = 16
REPLICAS = 2


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """The pods of one role."""

    replicas: int
    pod_template: KubeObject
    drain_timeout_s: int = DRAIN_TIMEOUT_S
    grace_s: int = GRACE_S
    max_unavailable: int = 1
    shards: int = SHARDS


@dataclass(frozen=True, slots=True)
class Storage:
    """The data directory: one ReadWriteMany claim, or a directory of one node."""

    claim: str = ""
    node: str = ""
    host_path: str = ""


@dataclass(frozen=True, slots=True)
class EtcdSpec:
    """Where etcd is; ``secret`` is empty without TLS."""

    endpoints: tuple[str, ...]
    prefix: str = "/sharemesh"
    secret: str = ""
    session_ttl_s: int = 10

    @property
    def addresses(self) -> tuple[str, ...]:
        """The endpoints as host:port."""
        return tuple(each.split("://", 1)[-1] for each in self.endpoints)


@dataclass(frozen=True, slots=True)
class External:
    """Addresses for clients outside of Kubernetes; leader n has the port plus n."""

    service_type: str
    host: str
    leader_port: int
    coordinator_port: int
    bootstrap_port: int

    def port(self, role: Role) -> int:
        """Return the first port of a role; 0 for one that clients do not call."""
        ports = {
            Role.SHARE_LEADER: self.leader_port,
            Role.GROUP_COORDINATOR: self.coordinator_port,
        }
        return ports.get(role, 0)


@dataclass(frozen=True, slots=True)
class PlacementSpec:
    """How topic-partitions are spread."""

    max_load_percent: int = 110
    moves_per_minute: int = 60
    standbys: int = 2
    settle_s: int = 30


@dataclass(frozen=True, slots=True)
class TelemetrySpec:
    """Where traces and metrics are sent to; empty: nowhere."""

    endpoint: str = ""
    record_sampling_percent: int = 0


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One ShareCluster as it is wanted."""

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
    external: External | None = None

    @property
    def cluster_id(self) -> str:
        """The cluster's name in etcd and in the data directory."""
        return f"{self.namespace}.{self.name}"

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


def cluster_spec(body: KubeObject, *, default_image: str) -> ClusterSpec:
    """Return what a ShareCluster object asks for.

    Args:
        body: The object as the API server gives it, defaults filled in.
        default_image: Image where the object names none; ``spec.version`` changes its tag.
    """
    meta, spec = body["metadata"], body["spec"]
    etcd, storage, tls = spec["etcd"], spec["storage"], spec.get("tls") or {}
    placement, telemetry = spec.get("placement") or {}, spec.get("telemetry") or {}
    version = spec.get("version", "")
    return ClusterSpec(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta.get("uid", ""),
        generation=meta.get("generation", 0),
        image=spec.get("image") or image_of(version, default_image),
        version=version,
        policy=spec.get("managementPolicy", "Managed"),
        paused=is_paused(body),
        roles={role: _role(spec.get(FIELDS[role]) or {}) for role in ROLES},
        etcd=EtcdSpec(
            endpoints=tuple(etcd["endpoints"]),
            prefix=etcd.get("prefix", "/sharemesh"),
            secret=etcd.get("tlsSecretName", ""),
            session_ttl_s=etcd.get("sessionTTLSeconds", 10),
        ),
        storage=Storage(
            storage.get("claimName", ""), storage.get("node", ""), storage.get("hostPath", "")
        ),
        placement=PlacementSpec(
            placement.get("maxLoadPercent", 110),
            placement.get("maxVoluntaryMovesPerMinute", 60),
            placement.get("standbys", 2),
            placement.get("settleSeconds", 30),
        ),
        telemetry=TelemetrySpec(telemetry.get("otlpEndpoint", ""), _sampling(telemetry)),
        rack_key=(spec.get("shareLeaders") or {}).get(
            "rackTopologyKey", "topology.kubernetes.io/zone"
        ),
        tls_secret=tls.get("secretName", ""),
        client_auth=tls.get("clientAuth") == "Required",
        external=_external(spec.get("external")),
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


def _role(given: Mapping[str, Any]) -> RoleSpec:
    return RoleSpec(
        replicas=given.get("replicas", REPLICAS),
        pod_template=given.get("podTemplate") or {},
        drain_timeout_s=given.get("drainTimeoutSeconds", DRAIN_TIMEOUT_S),
        grace_s=given.get("terminationGracePeriodSeconds", GRACE_S),
        max_unavailable=given.get("maxUnavailable", 1),
        shards=given.get("shards", SHARDS),
    )


def _sampling(telemetry: Mapping[str, Any]) -> int:
    if telemetry.get("traceDetail", "Batch") != "Record":
        return 0
    percent: int = telemetry.get("recordSamplingPercent", 1)
    return percent


def _external(given: Mapping[str, Any] | None) -> External | None:
    if not given:
        return None
    return External(
        service_type=given.get("serviceType", "NodePort"),
        host=given["host"],
        leader_port=given.get("shareLeaderPort", 30_400),
        coordinator_port=given.get("groupCoordinatorPort", 30_600),
        bootstrap_port=given.get("bootstrapPort", 30_399),
    )
