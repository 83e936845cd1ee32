"""What the operator may do, what it may not, and that nothing it wanted was denied."""

import pytest

NEEDED = [
    ("watch", "shareclusters.sharemesh.io"),
    ("patch", "shareclusters.sharemesh.io/status"),
    ("delete", "sharegroupoperations.sharemesh.io"),
    ("create", "statefulsets.apps"),
    ("patch", "services"),
    ("patch", "configmaps"),
    ("delete", "pods"),
    ("create", "poddisruptionbudgets.policy"),
    ("list", "persistentvolumeclaims"),
    ("create", "events"),
]
FORBIDDEN = [
    ("get", "secrets"),
    ("list", "secrets"),
    ("create", "pods/exec"),
    ("create", "pods/attach"),
    ("create", "pods/eviction"),
    ("create", "pods"),
    ("create", "serviceaccounts/token"),
    ("patch", "deployments.apps"),
    ("create", "roles.rbac.authorization.k8s.io"),
    ("escalate", "roles.rbac.authorization.k8s.io"),
    ("impersonate", "users"),
    ("delete", "persistentvolumeclaims"),
    ("create", "shareclusters.sharemesh.io"),
]
CLUSTER_WIDE = [
    ("get", "nodes"),
    ("list", "namespaces"),
    ("get", "customresourcedefinitions.apiextensions.k8s.io"),
    ("get", "persistentvolumes"),
]


def may(mesh, verb: str, resource: str, *words: str, account: str = "sharemesh-operator") -> bool:
    name = f"system:serviceaccount:{mesh.namespace}:{account}"
    answer = mesh.kube.answer("auth", "can-i", verb, resource, f"--as={name}", *words)
    assert answer in {"yes", "no"}
    return answer == "yes"


@pytest.mark.parametrize(("verb", "resource"), NEEDED)
def test_the_operator_may(mesh, verb, resource):
    assert may(mesh, verb, resource)


@pytest.mark.parametrize(("verb", "resource"), FORBIDDEN)
def test_the_operator_may_not(mesh, verb, resource):
    assert not may(mesh, verb, resource)


@pytest.mark.parametrize(("verb", "resource"), NEEDED)
def test_the_operator_may_do_nothing_in_other_namespaces(mesh, verb, resource):
    assert not may(mesh, verb, resource, "-n", "kube-system")


@pytest.mark.parametrize(("verb", "resource"), CLUSTER_WIDE)
def test_the_operator_may_not_look_at_the_cluster(mesh, verb, resource):
    assert not may(mesh, verb, resource, "--all-namespaces")


def test_role_pods_may_do_nothing_at_all(mesh):
    for verb, resource in NEEDED:
        assert not may(mesh, verb, resource, account="default")
