"""Flags over variables; what is missing is named."""

import pytest

from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh_operator.settings import operator_settings

POD = {"POD_NAME": "op-0", "POD_NAMESPACE": "queues"}
VARIABLES = {
    **POD,
    "SHAREMESH_OPERATOR_ETCD_ENDPOINTS": "http://a:2379, b:2379",
    "SHAREMESH_OPERATOR_IMAGE": "sharemesh:1",
}


def test_a_pod_needs_only_variables():
    found = operator_settings([], VARIABLES)
    assert (found.namespace, found.identity) == ("queues", "op-0")
    assert found.etcd_addresses == ("a:2379", "b:2379")
    assert (found.health_port, found.metrics_port) == (8080, 9090)


def test_flags_win():
    found = operator_settings(["--namespace", "other", "--health-port=0"], VARIABLES)
    assert (found.namespace, found.health_port) == ("other", 0)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"SHAREMESH_OPERATOR_IMAGE": ""},
            "setting image is missing in the flags and variables SHAREMESH_OPERATOR_",
        ),
        (
            {"SHAREMESH_OPERATOR_HEALTH_PORT": "x"},
            "setting health_port: value 'x' is not a whole number",
        ),
        ({"SHAREMESH_OPERATOR_LOG_FORMAT": "xml"}, "is not one of text, json"),
        ({"SHAREMESH_OPERATOR_SESSION_TTL_MS": "1"}, "is not within 2000..600000"),
    ],
)
def test_what_is_wrong_is_named(change, text):
    with pytest.raises(StartError, match=text) as refused:
        operator_settings([], VARIABLES | change)
    assert refused.value.code is ExitCode.SETTINGS
