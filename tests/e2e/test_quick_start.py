"""From an empty namespace to the first record."""

from tests.e2e import environment
from tests.e2e.kube import is_ready

FIRST_RECORD_GOAL_S = 90


def test_the_first_record_is_consumed_within_90_seconds_of_helm_install(mesh, timings):
    assert timings.found["helm install to first record consumed"] <= FIRST_RECORD_GOAL_S


def test_every_kind_says_that_it_is_ready(mesh):
    for kind, name in (
        ("sharecluster", "main"),
        ("sharetopic", "orders"),
        ("sharegroup", "billing"),
    ):
        condition = mesh.kube.wait_for_condition(kind, name)
        assert condition["reason"]
    columns = mesh.kube("get", "sharemesh")
    assert "orders" in columns
    assert "billing" in columns


def test_the_status_of_the_cluster_counts_pods_and_names_the_first_address(mesh):
    mesh.settled()
    status = mesh.kube.get("sharecluster", "main")["status"]
    assert status["shareLeaders"]["ready"] == 2
    assert status["bootstrap"] == mesh.bootstrap()
    assert status["observedGeneration"] == 1


def test_pods_run_as_the_restricted_standard_asks_and_get_no_token(mesh):
    for role in environment.ROLES:
        for pod in mesh.pods(role):
            assert is_ready(pod)
            assert pod["spec"]["automountServiceAccountToken"] is False
            assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
            for container in pod["spec"]["containers"]:
                security = container["securityContext"]
                assert security["readOnlyRootFilesystem"] is True
                assert security["capabilities"]["drop"] == ["ALL"]


def test_helm_test_of_the_operator_passes(mesh):
    said = mesh.kube.helm("test", "sharemesh", "--logs")
    assert "0 are not as they should be" in said
