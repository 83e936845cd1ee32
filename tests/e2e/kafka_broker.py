"""Apache Kafka as a pod: one broker, also its own controller, whose log outlives the pod."""

from pathlib import Path

from tests.e2e import disruptions, objects
from tests.e2e.environment import Environment
from tests.e2e.kube import Document, is_ready, until
from tests.kafka.real_broker import QUICK, SMALL

NAME = "kafka"
POD = f"{NAME}-0"
PORT, CONTROLLER_PORT = 9092, 9093
CLUSTER_ID = "AAECAwQFBgcICQoLDA0ODw"
"""Of Kafka's own form: 16 bytes in base64."""

STARTED_S = 180
SETTINGS, DATA = "/etc/kafka", "/var/lib/kafka"
_KAFKA = f"java {' '.join(SMALL)} -Dlog4j2.configurationFile=file:{SETTINGS}/log4j2.properties"
TOOL = f"{_KAFKA} -cp '/opt/kafka/tools/*' org.apache.kafka.tools"
"""What a command of Kafka's begins with, in the broker's pod."""

_START = f"""
kafka="{_KAFKA} -cp /opt/kafka/libs/*"
set -f
file={SETTINGS}/broker.properties
$kafka kafka.tools.StorageTool format --ignore-formatted -t {CLUSTER_ID} -c $file
exec $kafka kafka.Kafka $file
"""
LOG_SETTINGS = Path(__file__).parents[1] / "kafka" / "log4j2.properties"


def broker_properties(host: str) -> str:
    """Return the settings of the broker, which is reached by a name of the cluster's DNS."""
    lines: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{CONTROLLER_PORT}",
        "listeners": f"CLIENT://:{PORT},CONTROLLER://127.0.0.1:{CONTROLLER_PORT}",
        "advertised.listeners": f"CLIENT://{host}:{PORT}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": f"{DATA}/log",
        "auto.create.topics.enable": "false",
        "default.replication.factor": 1,
        "min.insync.replicas": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        **QUICK,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


class KafkaBroker:
    """The broker of one environment; its log lies in a directory of the node."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.address = f"{POD}.{NAME}.{env.namespace}.svc:{PORT}"

    def start(self) -> None:
        """Make it, and return when it takes connections."""
        self._env.make_directories(NAME)
        self._env.kube.apply(self._settings(), self._service(), self._workload())
        until("the broker is ready", self._is_ready, timeout_s=STARTED_S)

    def kill(self) -> None:
        """Take its pod away without any grace; return when another one is ready."""
        uid = self._env.kube.get("pod", POD)["metadata"]["uid"]
        disruptions.kill_pod(self._env.kube, POD)
        disruptions.replaced(self._env.kube, POD, uid, timeout_s=STARTED_S)

    def remove(self) -> None:
        """Take all of it away but the log."""
        self._env.kube.delete("statefulset", NAME, wait=True)
        self._env.kube.delete("service", NAME)
        self._env.kube.delete("configmap", NAME)

    def _is_ready(self) -> bool | None:
        return is_ready(self._env.kube.get("pod", POD)) or None

    def _settings(self) -> Document:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME},
            "data": {
                "broker.properties": broker_properties(self.address.rpartition(":")[0]),
                "log4j2.properties": LOG_SETTINGS.read_text(),
            },
        }

    @staticmethod
    def _service() -> Document:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {"app": NAME},
                "ports": [{"name": "client", "port": PORT}],
            },
        }

    def _workload(self) -> Document:
        container = {
            "name": NAME,
            "image": self._env.images.kafka,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-ec", _START],
            "securityContext": objects.RESTRICTED_CONTAINER,
            "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
            "volumeMounts": [
                {"name": "tmp", "mountPath": "/tmp"},
                {"name": "settings", "mountPath": SETTINGS, "readOnly": True},
                {"name": "data", "mountPath": DATA},
            ],
        }
        volumes = [
            {"name": "tmp", "emptyDir": {}},
            {"name": "settings", "configMap": {"name": NAME}},
            {
                "name": "data",
                "hostPath": {"path": self._env.host_path(NAME), "type": "Directory"},
            },
        ]
        pod = {
            "nodeName": self._env.node,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 10,
            "securityContext": objects.RESTRICTED_POD,
            "containers": [container],
            "volumes": volumes,
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": NAME},
            "spec": {
                "serviceName": NAME,
                "replicas": 1,
                "selector": {"matchLabels": {"app": NAME}},
                "template": {"metadata": {"labels": {"app": NAME}}, "spec": pod},
            },
        }
