"""Listeners for clients of Kafka: what a ShareCluster with some has, and what is said of it."""

from dataclasses import replace

import pytest

from sharemesh.serve.settings.settings import ServeSettings, names_of
from sharemesh.serve.settings.sources import ConfigFile, serve_settings
from sharemesh_operator.resources.cluster_status import (
    ClusterSeen,
    PlacementSeen,
    conditions,
    status,
)
from sharemesh_operator.resources.kafka_listener_status import services_without_address
from sharemesh_operator.resources.rollout import plan
from sharemesh_operator.resources.workloads import surplus
from tests.operator.bodies import spec_of
from tests.operator.test_rollout import seen, with_node, with_pod
from tests.operator.test_workloads import config, objects, pod

OUTSIDE = {"external": {"host": "{pod}.example.org"}}
LISTENING = ("share-leader", "group-coordinator")


def arguments(listener, role="share-leader"):
    args = pod({"kafkaListener": listener}, role)["containers"][0]["args"]
    prefix = "--kafka-listener-"
    found = [each.removeprefix(prefix) for each in args if each.startswith(prefix)]
    return dict(each.split("=", 1) for each in found)


def services(listener):
    found = objects({"kafkaListener": listener, "shareLeaders": {"replicas": 2}})
    return {
        name: each["spec"]
        for (kind, name), each in found.items()
        if kind == "Service" and name.endswith("-kafka")
    }


def settings(listener, node_id, role="share-leader"):
    """Return the settings of a pod, as its process reads them."""
    found = config({"kafkaListener": listener})
    flags = {
        f"kafka_listener_{name.replace('-', '_')}": value.replace("$(POD_NAME)", node_id)
        for name, value in arguments(listener, role).items()
    }
    flags |= {"role": role, "node_id": node_id, "advertised_host": node_id}
    return serve_settings(found | flags, {}, ConfigFile())


def test_kls_50_without_the_block_there_is_no_listener():
    found = objects()
    assert not [name for _, name in found if name.endswith("-kafka")]
    assert not [each for each in pod()["containers"][0]["args"] if "kafka" in each]
    assert status(spec_of(), whole(spec_of()))["kafkaBootstrap"] is None


def test_kls_50_pods_listen_and_are_reached_inside_by_services_of_their_names():
    found = services({})
    assert sorted(found) == [
        "main-bootstrap-kafka",
        "main-group-coordinator-0-kafka",
        "main-group-coordinator-1-kafka",
        "main-share-leader-0-kafka",
        "main-share-leader-1-kafka",
    ]
    for name, each in found.items():
        assert each["type"] == "ClusterIP"
        assert [port["port"] for port in each["ports"]] == [9_092]
        assert each.get("publishNotReadyAddresses", False) == (name != "main-bootstrap-kafka")
    leader = found["main-share-leader-1-kafka"]["selector"]
    assert leader["statefulset.kubernetes.io/pod-name"] == "main-share-leader-1"
    assert found["main-bootstrap-kafka"]["selector"] == {
        "sharemesh.io/cluster": "main",
        "app.kubernetes.io/component": "share-leader",
    }
    assert arguments({}) == {
        "port": "9092",
        "advertised-host": "$(POD_NAME)-kafka.queues.svc",
    }
    assert arguments({}, "share-coordinator") == {}
    ports = pod({"kafkaListener": {"port": 19_092}})["containers"][0]["ports"]
    assert {"name": "kafka", "containerPort": 19_092} in ports


@pytest.mark.parametrize("role", LISTENING)
def test_kls_50_outside_each_pod_has_the_port_of_its_number(role):
    ports = {
        name: [(each["port"], each.get("nodePort")) for each in found["ports"]]
        for name, found in services(OUTSIDE).items()
    }
    assert ports["main-bootstrap-kafka"] == [(9_092, 30_899)]
    assert ports["main-share-leader-1-kafka"] == [(9_092, 30_901)]
    assert ports["main-group-coordinator-1-kafka"] == [(9_092, 31_201)]
    told = settings(OUTSIDE, f"main-{role}-1", role)
    assert told.kafka_listener_advertised_host == f"main-{role}-1.example.org"
    assert told.kafka_port_to_advertise == ports[f"main-{role}-1-kafka"][0][1]


def test_kls_50_a_balancer_has_the_port_that_is_advertised_and_no_port_twice():
    balanced = {"external": {**OUTSIDE["external"], "serviceType": "LoadBalancer"}}
    found = services(balanced)["main-share-leader-1-kafka"]
    assert found["type"] == "LoadBalancer"
    assert [(each["name"], each["port"], each["targetPort"]) for each in found["ports"]] == [
        ("kafka", 9_092, 9_092),
        ("kafka-external", 30_901, 9_092),
    ]
    balanced["external"]["bootstrapPort"] = 9_092
    [port] = services(balanced)["main-bootstrap-kafka"]["ports"]
    assert port["port"] == 9_092


def test_kls_50_the_address_of_grpc_stays_what_it_was():
    before, after = objects(), objects({"kafkaListener": OUTSIDE})
    services_of_grpc = [key for key in before if key[0] == "Service"]
    assert [before[key] for key in services_of_grpc] == [after[key] for key in services_of_grpc]
    gone = surplus(list(before.values()), list(after.values()), "u-1")
    assert {each["metadata"]["name"] for each in gone} == set(services(OUTSIDE))


def test_kls_50_processes_take_what_the_object_says_of_logins_and_bounds():
    listener = {
        "saslMechanisms": ["ScramSha512", "Plain", "OAuthBearer"],
        "maxReauthSeconds": 3_600,
        "maxConnections": 500,
    }
    tls = {"secretName": "certs"}
    tokens = {"issuer": "https://issuer", "serviceAccountName": "pods"}
    found = config({"kafkaListener": listener, "tls": tls, "tokens": tokens})
    assert set(found) <= set(names_of(ServeSettings))
    assert found["kafka_listener_sasl_mechanisms"] == ["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"]
    assert found["kafka_listener_max_reauth_ms"] == 3_600_000
    assert found["kafka_listener_connections"] == 500
    scram = settings({"saslMechanisms": ["ScramSha256"]}, "main-share-leader-0")
    assert scram.has_kafka_listener
    assert scram.kafka_clients_have_names
    # Share coordinators are told the same, and have no listener.
    coordinator = settings(
        {"saslMechanisms": ["ScramSha256"]}, "main-share-coordinator-0", "share-coordinator"
    )
    assert not coordinator.has_kafka_listener


def whole(spec, **placed):
    pods = seen(spec)
    for each in pods.pods:
        pods = with_node(pods, each.name, listens=each.role in LISTENING)
    return ClusterSeen(pods, plan(spec, pods), PlacementSeen(**placed))


def said(spec, found):
    return next(each for each in conditions(spec, found) if each.kind == "KafkaListenerReady")


def test_the_status_says_where_clients_of_kafka_begin():
    spec = spec_of({"kafkaListener": OUTSIDE})
    told = said(spec, whole(spec))
    assert (told.status, told.reason) == (True, "Listening")
    found = status(spec, whole(spec))
    assert found["kafkaBootstrap"] == "main-bootstrap-kafka.queues.svc:9092"
    assert found["externalKafkaBootstrap"] == "main-bootstrap.example.org:30899"
    assert found["kafkaBootstrap"] in told.message
    assert found["externalKafkaBootstrap"] in told.message
    inside = spec_of({"kafkaListener": {"port": 19_092}})
    assert status(inside, whole(inside))["externalKafkaBootstrap"] is None
    assert "and" not in said(inside, whole(inside)).message


def test_without_a_listener_nothing_is_said_of_one():
    kinds = {each.kind for each in conditions(spec_of(), whole(spec_of()))}
    assert "KafkaListenerReady" not in kinds


def test_a_pod_without_a_listener_is_named():
    spec = spec_of({"kafkaListener": {}})
    found = whole(spec)
    late = replace(found, seen=with_node(found.seen, "main-share-leader-1", listens=False))
    told = said(spec, late)
    assert (told.status, told.reason) == (False, "PodsNotListening")
    assert told.message.startswith("no listener is in main-share-leader-1: ")
    # One that leaves does not count any more.
    leaving = with_pod(late.seen, "main-share-leader-1", terminating=True)
    assert said(spec, replace(late, seen=leaving)).status
    nobody = seen(spec)
    assert said(spec, replace(found, seen=nobody)).status is None
    assert said(spec, replace(found, seen=replace(nobody, nodes=None))).status is None


def test_many_pods_are_not_all_named():
    spec = spec_of({"kafkaListener": {}, "shareLeaders": {"replicas": 9}})
    found = seen(spec)
    found = with_node(found, "main-group-coordinator-0", listens=True)
    told = said(spec, replace(whole(spec), seen=found))
    assert "and 5 more" in told.message


@pytest.mark.parametrize(
    ("mechanisms", "users", "reason"),
    [
        (["ScramSha512"], 0, "NoUsers"),
        (["Plain"], 0, "NoUsers"),
        (["ScramSha512"], 1, "Listening"),
        (["ScramSha512", "OAuthBearer"], 0, "Listening"),
    ],
)
def test_a_listener_where_nobody_can_log_in_says_so(mechanisms, users, reason):
    spec = spec_of({"kafkaListener": {"saslMechanisms": mechanisms}})
    assert said(spec, whole(spec, users=users)).reason == reason
    assert said(spec, replace(whole(spec), placement=None)).reason in ("NoUsers", "Listening")


def test_a_balancer_without_an_address_is_named():
    listener = {"external": {"host": "{pod}.example.org", "serviceType": "LoadBalancer"}}
    spec = spec_of({"kafkaListener": listener, "external": listener["external"]})
    found = objects({"kafkaListener": listener, "external": listener["external"]})
    live = list(found.values())
    found["Service", "main-bootstrap-kafka"]["status"] = {
        "loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}
    }
    waiting = services_without_address(spec, live)
    assert waiting == (
        "main-group-coordinator-0-kafka",
        "main-group-coordinator-1-kafka",
        "main-share-leader-0-kafka",
        "main-share-leader-1-kafka",
    )
    told = said(spec, replace(whole(spec), unbalanced=waiting))
    assert (told.status, told.reason) == (False, "AddressesPending")
    assert waiting[0] in told.message
    assert services_without_address(spec_of(), live) == ()
