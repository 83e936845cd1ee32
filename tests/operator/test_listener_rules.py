"""What a real API server takes of `spec.kafkaListener` (rules in CEL)."""

import pytest

from tests.operator.api_worlds import real_world
from tests.operator.test_storage_rules import PATH, cluster, refusal

pytestmark = pytest.mark.cluster

STORAGE = {"type": "Shared", "claimName": "data"}
TLS = {"tls": {"secretName": "certs"}}
MUTUAL = {"tls": {"secretName": "certs", "clientAuth": "Required"}}
TOKENS = {"tokens": {"issuer": "https://issuer", "serviceAccountName": "pods"}}
RULES = {"authorization": {"mode": "Acl"}}


def logins(*mechanisms, **more):
    return {"saslMechanisms": list(mechanisms), **more}


TAKEN = {
    "nothing more": ({}, {}),
    "passwords in plain text": (logins("ScramSha256", "ScramSha512"), {}),
    "every mechanism": (
        logins("ScramSha512", "Plain", "OAuthBearer", maxReauthSeconds=60),
        TLS | TOKENS,
    ),
    "rules with logins": (logins("ScramSha512"), TLS | TOKENS | RULES),
    "rules with certificates": ({}, MUTUAL | RULES),
    "outside": ({"external": {"host": "{pod}.example.org", "serviceType": "LoadBalancer"}}, {}),
}
REFUSED = {
    "a port of the pods": ({"port": 9400}, {}, "are those of metrics, gRPC and health"),
    "a port below": ({"port": 1023}, {}, "should be greater than or equal to 1024"),
    "no mechanism": (logins(), {}, "should have at least 1 items"),
    "one twice": (logins("ScramSha512", "ScramSha512"), {}, "Duplicate value"),
    "one that is none": (logins("Gssapi"), {}, "Unsupported value"),
    "secrets in plain text": (logins("Plain"), {}, "so they need tls"),
    "tokens of nobody": (logins("OAuthBearer"), TLS, "OAuthBearer needs tokens"),
    "an end of no login": ({"maxReauthSeconds": 60}, {}, "with saslMechanisms only"),
    "rules without names": ({}, TLS | TOKENS | RULES, "names for clients of Kafka too"),
    "outside without a host": ({"external": {}}, {}, "Required value"),
}


@pytest.fixture
async def world():
    async with real_world() as found:
        yield found


@pytest.mark.parametrize("case", TAKEN)
async def test_a_listener_that_fits_is_taken(world, case):
    listener, spec = TAKEN[case]
    body = cluster(STORAGE, kafkaListener=listener, **spec)
    assert await refusal(world, "POST", PATH, body) == ""


@pytest.mark.parametrize("case", REFUSED)
async def test_a_listener_that_does_not_fit_is_refused_in_words(world, case):
    listener, spec, words = REFUSED[case]
    body = cluster(STORAGE, kafkaListener=listener, **spec)
    assert words in await refusal(world, "POST", PATH, body)
