"""What the tests stand on: a namespace with operator, etcd and one ShareCluster under it."""

import base64
import contextlib
import fcntl
import json
import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import trustme
import yaml

from tests.e2e import objects
from tests.e2e.kube import Document, Kube, until
from tests.e2e.ledger import Load

ROOT = Path(__file__).parents[2]
CHARTS = ROOT / "charts"
CLUSTER = "main"
ROLES = ("share-leader", "group-coordinator", "share-coordinator")
OPERATOR = "app.kubernetes.io/component=operator"
TLS_SECRET = "mesh-tls"
TOKEN_AUDIENCE = "sharemesh"
"""Whom the tokens are for that the operator shows to clusters with tokens."""
OUTSIDE_CLUSTER = "outside"
READY_TIMEOUT_S = 150


@dataclass(frozen=True, slots=True)
class Images:
    """Names of images that the nodes have; ``newer`` has the same content under another tag."""

    registry: str = os.environ.get("SHAREMESH_E2E_REGISTRY", "localhost")
    tag: str = os.environ.get("SHAREMESH_E2E_TAG", "e2e")
    newer_tag: str = os.environ.get("SHAREMESH_E2E_NEWER_TAG", "e2e-newer")
    etcd_tag: str = os.environ.get("SHAREMESH_E2E_TAG", "e2e")

    @property
    def sharemesh(self) -> str:
        """The image that everything starts with."""
        return f"{self.registry}/sharemesh:{self.tag}"

    @property
    def newer(self) -> str:
        """The image that updates roll to."""
        return f"{self.registry}/sharemesh:{self.newer_tag}"

    @property
    def kafka(self) -> str:
        """A broker of Apache Kafka."""
        return f"{self.registry}/kafka:{self.tag}"

    @property
    def spark(self) -> str:
        """The image of Spark."""
        return f"{self.registry}/sharemesh-spark:{self.tag}"


class Timings:
    """What was measured, for the report."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}

    def note(self, what: str, seconds: float) -> None:
        """Keep one figure, and show it."""
        self.found[what] = round(seconds, 2)
        print(f"\n[e2e] {what}: {seconds:.2f} s")

    def write(self, path: Path) -> None:
        """Write all figures."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.found, indent=1) + "\n")


@dataclass(slots=True)
class Environment:
    """One namespace of the suite."""

    kube: Kube
    images: Images
    node: str
    host_root: str
    timings: Timings
    loads: int = 0
    certificates: dict[str, bytes] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """Its name."""
        return self.kube.namespace

    @property
    def etcd(self) -> str:
        """The URL of the etcd inside, from every namespace."""
        return f"http://sharemesh-etcd.{self.namespace}.svc:2379"

    def bootstrap(self, cluster: str = CLUSTER) -> str:
        """Where clients inside begin."""
        return f"{cluster}-bootstrap.{self.namespace}.svc:9400"

    def operator_values(self, **more: str) -> list[str]:
        """Return the values that the operator's chart is installed with."""
        values = {
            "image.repository": f"{self.images.registry}/sharemesh",
            "image.tag": self.images.tag,
            "etcd.inCluster.enabled": "true",
            "etcd.inCluster.image.repository": f"{self.images.registry}/etcd",
            "etcd.inCluster.image.tag": self.images.etcd_tag,
            "secrets": "{" + TLS_SECRET + "}",
            "tokens.audience": TOKEN_AUDIENCE,
            **more,
        }
        return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]

    def host_path(self, name: str) -> str:
        """Return a directory of the node."""
        return f"{self.host_root}/{self.namespace}/{name}"

    def as_root(self, name: str, script: str, *, host_processes: bool = False) -> str:
        """Run a script as root on the node, with the suite's directory at /host."""
        pod = objects.root_pod(name, self.images.sharemesh, self.node, self.host_root, script)
        pod["spec"]["hostPID"] = host_processes
        self.kube.apply(pod)

        def over() -> str | None:
            phase: str = self.kube.get("pod", name)["status"]["phase"]
            return phase if phase in {"Succeeded", "Failed"} else None

        phase = until(f"{name} ends", over, timeout_s=60)
        said = self.kube.logs(name)
        self.kube.delete("pod", name)
        assert phase == "Succeeded", said
        return said

    def make_directories(self, *names: str) -> None:
        """Make directories that the pods' user may write to."""
        paths = " ".join(shlex.quote(f"/host/{self.namespace}/{name}") for name in names)
        self.as_root("make-directories", f"mkdir -p {paths}; chown 10001:10001 {paths}")

    def storage(self, name: str) -> Document:
        """Return SingleNode storage in such a directory."""
        return {"type": "SingleNode", "node": self.node, "hostPath": self.host_path(name)}

    def load(
        self, topic: str, group: str, *words: str, cluster: str = CLUSTER, image: str = ""
    ) -> Load:
        """Start a load pod."""
        self.loads += 1
        load = Load(self.kube, image or self.images.sharemesh, f"load-{self.loads}")
        return load.start(self.bootstrap(cluster), topic, group, *words)

    def topic_and_group(
        self, name: str, *, cluster: str = CLUSTER, partitions: int = 4
    ) -> tuple[str, str]:
        """Make a ShareTopic and a ShareGroup of their own; return their names when ready."""
        topic, group = f"{name}-topic", f"{name}-group"
        self.kube.apply(
            objects.topic(topic, cluster, partitions=partitions),
            objects.group(group, cluster, topic),
        )
        self.kube.wait_for_condition("sharetopic", topic)
        self.kube.wait_for_condition("sharegroup", group)
        return topic, group

    def ready(self, cluster: str = CLUSTER, *, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until a ShareCluster says that it is ready."""
        self.kube.wait_for_condition("sharecluster", cluster, timeout_s=timeout_s)

    def settled(self, cluster: str = CLUSTER, *, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until a ShareCluster is ready, and nothing is being rolled or scaled any more."""
        self.ready(cluster, timeout_s=timeout_s)
        self.kube.wait_for_condition(
            "sharecluster", cluster, "Progressing", status="False", timeout_s=timeout_s
        )

    def pods(self, role: str, cluster: str = CLUSTER) -> list[Document]:
        """Return the pods of a role, those that are leaving left out."""
        selector = f"app.kubernetes.io/component={role},sharemesh.io/cluster={cluster}"
        found = self.kube.objects("pods", selector)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def sharemesh(self, *words: str, cluster: str = CLUSTER, timeout_s: float = 60) -> str:
        """Run the command line of a share-leader pod against the cluster."""
        pod = self.pods("share-leader", cluster)[0]["metadata"]["name"]
        command = ("sharemesh", *words, "--bootstrap", self.bootstrap(cluster))
        return self.kube.exec(pod, *command, timeout_s=timeout_s)

    def group_config(self, group: str, name: str, *, cluster: str = CLUSTER) -> str:
        """Return a config of a group as the mesh has it."""
        said = self.sharemesh("configs", "describe", "--group", group, "--json", cluster=cluster)
        return str(next(row["value"] for row in json.loads(said) if row["name"] == name))

    def operator_logs(self) -> str:
        """Return what all operator pods wrote, also before a restart."""
        said = []
        for pod in self.kube.objects("pods", OPERATOR):
            name = pod["metadata"]["name"]
            said.append(self.kube.logs(name))
            if any(s["restartCount"] for s in pod["status"].get("containerStatuses", ())):
                said.append(self.kube.logs(name, "--previous"))
        return "\n".join(said)


def first_node() -> str:
    """Return the name of a node that takes pods."""
    kube = Kube("default")
    nodes = kube.objects("nodes")
    good = [node for node in nodes if not node["spec"].get("unschedulable")]
    assert good, f"no node takes pods: {[node['metadata']['name'] for node in nodes]}"
    return str(good[0]["metadata"]["name"])


def quick_start(env: Environment) -> list[Document]:
    """Return the objects of examples/kubernetes/quick-start.yaml, with this node's storage."""
    text = (ROOT / "examples" / "kubernetes" / "quick-start.yaml").read_text()
    found = list(yaml.safe_load_all(text))
    found[0]["spec"]["storage"] |= {"node": env.node, "hostPath": env.host_path(CLUSTER)}
    return found


def node_address(node: str) -> str:
    """Return where a node is reached."""
    addresses = Kube("default").get("node", node)["status"]["addresses"]
    return next(str(each["address"]) for each in addresses if each["type"] == "InternalIP")


def make_certificates(env: Environment) -> None:
    """Make a Secret whose certificate holds for every name inside and for the node outside."""
    authority = trustme.CA()
    suffix = f"{env.namespace}.svc"
    certificate = authority.issue_cert(
        f"*.{suffix}", f"{OUTSIDE_CLUSTER}-bootstrap.{suffix}", node_address(env.node)
    )
    env.certificates = {
        "tls.crt": b"".join(blob.bytes() for blob in certificate.cert_chain_pems),
        "tls.key": certificate.private_key_pem.bytes(),
        "ca.crt": authority.cert_pem.bytes(),
    }
    data = {name: base64.b64encode(text).decode() for name, text in env.certificates.items()}
    env.kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": TLS_SECRET},
            "type": "kubernetes.io/tls",
            "data": data,
        }
    )


@contextlib.contextmanager
def definitions_alone() -> Iterator[None]:
    """Keep the other worker from the release of the definitions, which all environments share."""
    lock = ROOT / "build" / "e2e" / "definitions.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def install_definitions() -> None:
    """Install the custom resource definitions, or make them new."""
    with definitions_alone():
        chart = str(CHARTS / "sharemesh-crds")
        Kube("default").helm("upgrade", "--install", "sharemesh-crds", chart)


def install(env: Environment) -> None:
    """Install charts and quick start; note how long it is to the first record."""
    env.make_directories(CLUSTER)
    make_certificates(env)
    started = time.monotonic()
    install_definitions()
    env.kube.helm("install", "sharemesh", str(CHARTS / "sharemesh"), *env.operator_values())
    env.kube.apply(*quick_start(env))
    # A group that a member joins before its settings are there starts at the newest record.
    env.kube.wait_for_condition("sharegroup", "billing", timeout_s=READY_TIMEOUT_S)
    load = env.load("orders", "billing")
    until(
        "the first record is consumed",
        lambda: load.acknowledged() > 0 or None,
        timeout_s=READY_TIMEOUT_S,
    )
    env.timings.note("helm install to first record consumed", time.monotonic() - started)
    env.ready()
    env.timings.note("helm install to ShareCluster Ready", time.monotonic() - started)
    load.finish().check()


def remove(env: Environment) -> None:
    """Take everything of an environment away, in an order that lets finalizers end."""
    kube = env.kube
    for kind in (
        "sharegroupoperations",
        "shareusers",
        "sharegroups",
        "sharetopics",
        "shareclusters",
    ):
        names = kube.names(kind)
        if names:
            kube.delete(kind, *names, wait=True, timeout_s=90)
    for release in json.loads(kube.helm("list", "-o", "json")):
        kube.helm("uninstall", release["name"], "--wait")
    env.as_root("remove-directories", f"rm -rf /host/{shlex.quote(env.namespace)}")
    Kube("default")("delete", "namespace", env.namespace, "--wait=false")
