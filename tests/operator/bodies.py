"""Custom resources as the API server gives them: defaults filled in by the schema."""

import copy

from sharemesh_operator.resources.cluster_spec import cluster_spec
from tests.operator.fake_apiserver.schema import shaped
from tests.operator.fake_apiserver.server import definitions

IMAGE = "registry.local:5000/sharemesh:0.1.0"


def _body(kind, name, spec, meta):
    body = {
        "apiVersion": "sharemesh.io/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "queues",
            "uid": "u-1",
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **meta,
        },
        "spec": copy.deepcopy(spec),
    }
    found = next(each for each in definitions() if each["spec"]["names"]["kind"] == kind)
    return shaped(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"], body)


def cluster(spec=None, **meta):
    base = {
        "etcd": {"endpoints": ["http://etcd-0:2379", "http://etcd-1:2379"]},
        "storage": {"type": "Shared", "claimName": "data"},
    }
    return _body("ShareCluster", "main", base | (spec or {}), meta)


def spec_of(spec=None, **meta):
    return cluster_spec(cluster(spec, **meta), default_image=IMAGE)


def topic(spec=None, **meta):
    base = {"clusterRef": {"name": "main"}, "partitions": 4}
    return _body("ShareTopic", "orders", base | (spec or {}), meta)


def user(spec=None, **meta):
    base = {"clusterRef": {"name": "main"}, "principal": "User:jane"}
    return _body("ShareUser", "jane", base | (spec or {}), meta)


def group(spec=None, **meta):
    base = {"clusterRef": {"name": "main"}, "topics": [{"name": "orders"}]}
    return _body("ShareGroup", "billing", base | (spec or {}), meta)
