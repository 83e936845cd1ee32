"""Renders the charts without a cluster and gives back documents."""

from pathlib import Path
from typing import Any

import helm_python as helm
import yaml

ROOT = Path(__file__).parents[2]
CHARTS = ROOT / "charts"
Document = dict[str, Any]
SHA = "sha256:" + "a" * 64

# Values that turn every branch of the templates on and off.
OPERATOR_VALUES: dict[str, Document] = {
    "external etcd": {"etcd": {"endpoints": ["https://a:2379", "https://b:2379"]}},
    "one etcd inside": {"etcd": {"inCluster": {"enabled": True}}},
    "etcd inside with TLS and a claim of its own": {
        "etcd": {
            "tlsSecretName": "etcd-tls",
            "inCluster": {
                "enabled": True,
                "storage": {"existingClaim": "mine", "storageClassName": "fast", "keep": False},
            },
        }
    },
    "everything else": {
        "etcd": {"inCluster": {"enabled": True, "storage": {"storageClassName": "fast"}}},
        "nameOverride": "mesh",
        "commonLabels": {"team": "queues"},
        "imagePullSecrets": [{"name": "registry"}],
        "image": {"repository": "example.org/sharemesh", "digest": SHA},
        "sparkImage": "example.org/spark:1",
        "operator": {
            "namespace": "elsewhere",
            "extraArgs": ["--log-format=text"],
            "extraEnv": [{"name": "A", "value": "b"}],
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "x", "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
            "priorityClassName": "system-cluster-critical",
            "podLabels": {"l": "m"},
            "podAnnotations": {"n": "o"},
        },
        "secrets": ["mesh-tls", "etcd-client"],
        "serviceAccount": {"annotations": {"p": "q"}},
        "rbac": {"aggregate": True},
        "networkPolicy": {
            "clients": [{"namespaceSelector": {}}],
            "kafkaPorts": [],
            "kafkaListenerPorts": [9092, 19092],
            "metrics": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        },
        "monitoring": {"dashboards": {"annotations": {"folder": "Sharemesh"}}},
        "overlays": {"deployment": {"spec": {"minReadySeconds": 3}}},
    },
    "as little as possible": {
        "etcd": {"endpoints": ["http://etcd:2379"]},
        "operator": {"replicas": 1},
        "serviceAccount": {"create": False, "name": "theirs"},
        "rbac": {"create": False},
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "tests": {"enabled": False},
        "monitoring": {"dashboards": {"enabled": False}, "rulesConfigMap": {"enabled": False}},
    },
}
_ETCD = {"etcd": {"endpoints": ["http://etcd:2379"]}}
CLUSTER_VALUES: dict[str, Document] = {
    "a claim that is there": {
        "cluster": {**_ETCD, "storage": {"type": "Shared", "claimName": "data"}}
    },
    "a claim of its own": {
        "cluster": _ETCD,
        "claim": {"create": True, "storageClassName": "nfs", "keep": False},
        "imagePullSecrets": [{"name": "registry"}],
        "commonLabels": {"team": "queues"},
        "spark": {"enabled": True, "executors": 2, "conf": {"spark.ui.enabled": "false"}},
        "topics": [{"name": "orders", "partitions": 8, "retentionSeconds": 3600}],
        "groups": [{"name": "billing", "topics": ["orders"], "autoOffsetReset": "Earliest"}],
        "quotas": {
            "userDefault": {"streams": 50, "producerByteRate": 20_000_000},
            "users": [{"principal": "User:etl", "requestPercentage": 200}],
            "groups": [{"groupId": "billing", "recordRate": 10**15}],
        },
    },
    "one node with TLS and clients outside": {
        "nameOverride": "main",
        "cluster": {
            **_ETCD,
            "keep": False,
            "annotations": {"sharemesh.io/pause-reconciliation": "true"},
            "storage": {"type": "SingleNode", "node": "n1", "hostPath": "/srv/sharemesh"},
            "spec": {
                "tls": {"secretName": "tls", "clientAuth": "Required"},
                "external": {"host": "{pod}.example.org"},
                "shareLeaders": {"replicas": 3, "podTemplate": {"spec": {"priority": 1}}},
            },
        },
        "spark": {"enabled": True, "suspend": True, "image": {"digest": SHA}},
    },
    "topics and groups of a cluster that is there": {
        "cluster": {"enabled": False},
        "tests": {"enabled": False},
        "topics": [{"name": "a", "partitions": 1}, {"name": "b", "partitions": 2}],
        "groups": [{"name": "g", "topics": ["a", "b"]}],
    },
}
CLUSTER_VALUES["tokens and Spark with executors"] = {
    "cluster": {
        **_ETCD,
        "storage": {"type": "Shared", "claimName": "data"},
        "spec": {
            "tls": {"secretName": "tls"},
            "tokens": {"issuer": "https://issuer", "serviceAccountName": "pods"},
        },
    },
    "spark": {"enabled": True, "executors": 2},
}
CLUSTER_VALUES["Kafka of Strimzi"] = {
    "cluster": {
        **_ETCD,
        "storage": {
            "type": "Kafka",
            "kafka": {
                "bootstrapServers": ["kafka-kafka-bootstrap.kafka.svc:9093"],
                "tls": {"caSecretName": "kafka-cluster-ca-cert"},
                "authentication": {"type": "ScramSha512", "secretName": "sharemesh"},
            },
            "generations": {"claimName": "generations"},
        },
    },
    "spark": {"enabled": True, "executors": 1},
}
CLUSTER_VALUES["generations in an object store"] = {
    "cluster": {
        **_ETCD,
        "storage": {
            "type": "Kafka",
            "kafka": {"bootstrapServers": ["kafka:9092"]},
            "generations": {"uri": "s3://analytics/mesh?region=eu-central-1"},
        },
    },
    "spark": {
        "enabled": True,
        "env": [
            {
                "name": "AWS_ACCESS_KEY_ID",
                "valueFrom": {"secretKeyRef": {"name": "store", "key": "key"}},
            }
        ],
    },
}
CLUSTER_VALUES["one broker for tests"] = {
    "cluster": {
        **_ETCD,
        "storage": {
            "type": "Kafka",
            "kafka": {
                "bootstrapServers": ["kafka:9092"],
                "topicPrefix": "mesh-",
                "topics": ["orders*", "!orders.dlq"],
                "clientId": "mesh",
                "manageTopics": True,
                "singleReplica": True,
            },
        },
    },
}
CLUSTER_VALUES["clients of Kafka"] = {
    "nameOverride": "main",
    "cluster": {
        **_ETCD,
        "storage": {"type": "Shared", "claimName": "data"},
        "spec": {
            "tls": {"secretName": "tls"},
            "kafkaListener": {
                "port": 19_092,
                "saslMechanisms": ["ScramSha512", "Plain"],
                "maxReauthSeconds": 3_600,
                "external": {"host": "{pod}.example.org", "serviceType": "LoadBalancer"},
            },
        },
    },
}
PRODUCTION = "production"
for _chart, _cases in (("sharemesh", OPERATOR_VALUES), ("sharemesh-cluster", CLUSTER_VALUES)):
    _cases[PRODUCTION] = yaml.safe_load((CHARTS / _chart / "values-production.yaml").read_text())
MATRIX = [
    *(("sharemesh", name) for name in OPERATOR_VALUES),
    *(("sharemesh-cluster", name) for name in CLUSTER_VALUES),
    ("sharemesh-crds", "no values"),
]


def values(chart: str, case: str) -> Document:
    """Return the values of a case of the matrix."""
    cases = {"sharemesh": OPERATOR_VALUES, "sharemesh-cluster": CLUSTER_VALUES}
    return cases.get(chart, {"no values": {}})[case]


def texts(chart: str, case_values: Document, *, namespace: str = "queues") -> dict[str, str]:
    """Return what each template makes, as text."""
    with helm.Chart.load(CHARTS / chart) as loaded:
        loaded.validate_schema(case_values)
        return loaded.render(case_values, name="main", namespace=namespace)


def documents(chart: str, case_values: Document) -> list[Document]:
    """Return all objects that a chart makes."""
    return [
        document
        for path, text in texts(chart, case_values).items()
        if not path.endswith("NOTES.txt")
        for document in yaml.safe_load_all(text)
        if document
    ]


def notes(chart: str, case_values: Document) -> str:
    """Return what `helm install` says at its end."""
    found = texts(chart, case_values)
    return next(text for path, text in found.items() if path.endswith("NOTES.txt"))


def of_kind(found: list[Document], kind: str) -> list[Document]:
    """Return the objects of one kind."""
    return [document for document in found if document["kind"] == kind]
