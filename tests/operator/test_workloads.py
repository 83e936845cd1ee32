"""A ShareCluster in, objects out: what pods may, what they run, who finds whom."""

from pathlib import Path

import yaml

from sharemesh.ports.cluster import Role
from sharemesh.serve.settings.settings import ServeSettings, names_of
from sharemesh.serve.settings.sources import ConfigFile, serve_settings
from sharemesh_operator.resources.cluster_spec import image_of
from sharemesh_operator.resources.pods import laid_over
from sharemesh_operator.resources.workloads import needs_apply, objects_of, surplus
from tests.operator.bodies import IMAGE, spec_of

LEADERS = {"shareLeaders": {"replicas": 3}}


def objects(spec=None, replicas=None):
    found = spec_of(spec)
    counts = {role: each.replicas for role, each in found.roles.items()} | (replicas or {})
    return {(each["kind"], each["metadata"]["name"]): each for each in objects_of(found, counts)}


def pod(spec=None, role="share-leader"):
    return objects(spec)["StatefulSet", f"main-{role}"]["spec"]["template"]["spec"]


def config(spec=None):
    return yaml.safe_load(objects(spec)["ConfigMap", "main-config"]["data"]["sharemesh.yaml"])


def test_every_object_has_labels_an_owner_and_a_hash():
    for each in objects().values():
        meta = each["metadata"]
        assert meta["labels"]["sharemesh.io/cluster"] == "main"
        assert meta["labels"]["app.kubernetes.io/managed-by"] == "sharemesh-operator"
        assert meta["ownerReferences"][0]["uid"] == "u-1"
        assert meta["annotations"]["sharemesh.io/applied-hash"]
        assert meta["namespace"] == "queues"


def test_pods_have_what_the_restricted_standard_asks_and_no_token():
    for role in ("share-leader", "group-coordinator", "share-coordinator"):
        found = pod(role=role)
        assert found["automountServiceAccountToken"] is False
        assert found["securityContext"]["runAsNonRoot"]
        assert found["securityContext"]["runAsUser"] == 10001
        assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        container = found["containers"][0]["securityContext"]
        assert container == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_stateful_sets_are_parallel_and_restart_only_by_the_operator():
    found = objects()["StatefulSet", "main-share-leader"]["spec"]
    assert found["podManagementPolicy"] == "Parallel"
    assert found["updateStrategy"] == {"type": "OnDelete"}


def test_the_grace_period_is_longer_than_the_hand_over():
    given = {"shareLeaders": {"drainTimeoutSeconds": 60, "terminationGracePeriodSeconds": 80}}
    assert pod(given)["terminationGracePeriodSeconds"] == 80
    # A role without such a field keeps room for its own hand-over.
    assert pod(role="group-coordinator")["terminationGracePeriodSeconds"] >= 60


def test_probes_are_of_health_alone_and_liveness_is_another_service():
    container = pod()["containers"][0]
    assert container["livenessProbe"]["grpc"] == {"port": 9401, "service": "liveness"}
    assert container["readinessProbe"]["grpc"] == {"port": 9401, "service": "readiness"}


def test_the_configuration_file_has_settings_that_serve_knows():
    whole = {
        "tls": {"secretName": "certs"},
        "telemetry": {"otlpEndpoint": "http://otel:4317", "traceDetail": "Record"},
        "etcd": {"endpoints": ["https://etcd:2379"], "tlsSecretName": "etcd-client"},
    }
    found = config(whole)
    assert set(found) <= set(names_of(ServeSettings))
    assert found["cluster_id"] == "queues.main"
    assert found["etcd_endpoints"] == ["etcd:2379"]
    assert found["tls_client_certificates"] == "none"
    assert found["record_sampling_percent"] == 1


def test_aud_7_a_cluster_says_where_its_audit_log_goes_or_leaves_it_to_the_image():
    assert "audit_log" not in config({})
    assert "audit_log" not in config({"audit": {}})
    for destination in ("File", "Stdout", "None"):
        found = config({"audit": {"destination": destination}})
        settings = serve_settings({"audit_log": found["audit_log"]}, {}, ConfigFile())
        assert settings.audit_log == destination.lower()


def test_bnd_2_pods_know_no_names_unless_clients_must_show_certificates():
    def names(tls):
        found = config({"tls": {"secretName": "certs", **tls}})
        assert not {"cluster_secret_file", "super_users", "principal_header"} & set(found)
        wanted = ("tls_certificate", "tls_key", "tls_authority")
        given = {name: Path(found[name]) for name in wanted}
        return ServeSettings(
            **given, tls_client_certificates=found["tls_client_certificates"]
        ).callers_have_names

    assert not names({})
    assert names({"clientAuth": "Required"})


def test_idn_2_pods_of_a_cluster_with_tokens_show_one_and_take_those_of_its_issuer():
    tokens = {"issuer": "https://issuer", "serviceAccountName": "mesh"}
    given = {"tls": {"secretName": "certs"}, "tokens": tokens, "authorization": {"mode": "Acl"}}
    given["authorization"]["superUsers"] = ["User:operator"]
    found, spec = config(given), pod(given)
    assert set(found) <= set(names_of(ServeSettings))
    assert found["super_users"] == ["User:operator", "User:system:serviceaccount:queues:mesh"]
    assert found["authorizer"] == "acl"
    assert spec["serviceAccountName"] == "mesh"
    assert spec["automountServiceAccountToken"] is False
    volume = next(each for each in spec["volumes"] if each["name"] == "tokens")
    mount = next(each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "tokens")
    shown, api, authority = volume["projected"]["sources"]
    assert shown["serviceAccountToken"]["audience"] == found["token_audience"] == "sharemesh"
    assert "audience" not in api["serviceAccountToken"], "the API server's own"
    assert authority["configMap"]["name"] == "kube-root-ca.crt"
    files = {found[name] for name in ("token_file", "token_keys_token", "token_keys_authority")}
    assert files == {f"{mount['mountPath']}/{n}" for n in ("mesh-token", "api-token", "ca.crt")}
    paths = ("tls_certificate", "tls_key", "tls_authority", "token_file")
    read = {name: Path(value) if name in paths else value for name, value in found.items()}
    flags = {"role": "share-leader", "advertised_host": "pod"}
    assert serve_settings(read | flags, {}, ConfigFile()).callers_have_names


def test_pods_restart_when_their_configuration_changes_and_only_then():
    def note(spec=None):
        sets = objects(spec)["StatefulSet", "main-share-leader"]
        return sets["spec"]["template"]["metadata"]["annotations"]["sharemesh.io/config-hash"]

    assert note() == note({"placement": {"standbys": 1}})
    assert note() != note({"telemetry": {"otlpEndpoint": "http://otel:4317"}})


def test_secrets_are_mounted_by_name_where_the_file_says():
    found = pod({"tls": {"secretName": "certs", "clientAuth": "Required"}})
    volume = next(each for each in found["volumes"] if each["name"] == "tls")
    mount = next(each for each in found["containers"][0]["volumeMounts"] if each["name"] == "tls")
    assert volume["secret"]["secretName"] == "certs"
    assert config({"tls": {"secretName": "certs"}})["tls_key"] == mount["mountPath"] + "/tls.key"


def test_a_single_node_is_named_and_its_folder_mounted():
    given = {"storage": {"type": "SingleNode", "node": "one", "hostPath": "/data/main"}}
    found = pod(given)
    assert found["nodeSelector"] == {"kubernetes.io/hostname": "one"}
    data = next(each for each in found["volumes"] if each["name"] == "data")
    assert data["hostPath"] == {"path": "/data/main", "type": "Directory"}


def test_every_pod_has_a_service_of_its_name_that_it_advertises():
    found = objects(LEADERS)
    service = found["Service", "main-share-leader-2"]["spec"]
    assert service["selector"]["statefulset.kubernetes.io/pod-name"] == "main-share-leader-2"
    assert service["publishNotReadyAddresses"]
    args = pod(LEADERS)["containers"][0]["args"]
    assert "--advertised-host=$(POD_NAME).queues.svc" in args


def test_outside_addresses_count_up_from_a_port():
    outside = {"external": {"host": "{pod}.example.org"}, **LEADERS}
    found = objects(outside)
    service = found["Service", "main-share-leader-2"]["spec"]
    assert service["type"] == "NodePort"
    assert service["ports"][0]["nodePort"] == 30_402
    args = pod(outside)["containers"][0]["args"]
    assert "--advertised-host=$(POD_NAME).example.org" in args
    assert "--advertised-port-base=30400" in args
    assert found["Service", "main-bootstrap"]["spec"]["ports"][0]["nodePort"] == 30_399
    assert found["Service", "main-share-coordinator-0"]["spec"]["type"] == "ClusterIP"


def test_the_port_of_a_pod_is_counted_by_its_ordinal():
    settings = ServeSettings(node_id="main-share-leader-2", advertised_port_base=30_400)
    assert settings.port_to_advertise == 30_402


def test_a_budget_only_where_there_is_a_choice():
    found = objects({"groupCoordinators": {"replicas": 1}})
    assert ("PodDisruptionBudget", "main-group-coordinator") not in found
    budget = found["PodDisruptionBudget", "main-share-leader"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_an_object_is_written_when_ours_differs_and_not_when_others_added():
    mine = objects()["Service", "main-bootstrap"]
    live = laid_over(mine, {"spec": {"clusterIP": "10.0.0.1"}, "status": {}})
    assert not needs_apply(mine, live)
    assert needs_apply(mine, None)
    assert needs_apply(mine, laid_over(live, {"spec": {"type": "NodePort"}}))


def test_a_field_that_we_no_longer_set_makes_it_another_object():
    before = objects({"external": {"host": "h"}})["Service", "main-bootstrap"]
    after = objects()["Service", "main-bootstrap"]
    assert needs_apply(after, before)


def test_services_of_pods_that_are_gone_are_surplus_and_strangers_are_not():
    live = list(objects(LEADERS).values())
    wanted = list(objects().values())
    stranger = {"kind": "Service", "metadata": {"name": "theirs", "ownerReferences": []}}
    gone = surplus(wanted, [*live, stranger], "u-1")
    assert [(each["kind"], each["metadata"]["name"]) for each in gone] == [
        ("Service", "main-share-leader-2")
    ]


def test_the_overlay_merges_by_name_and_null_removes():
    given = {
        "shareLeaders": {
            "podTemplate": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {
                    "containers": [
                        {
                            "name": "sharemesh",
                            "resources": {"limits": {"memory": "1Gi"}},
                            "env": [{"name": "X", "value": "1"}],
                        },
                        {"name": "sidecar", "image": "other"},
                    ],
                    "nodeSelector": {"disk": "fast"},
                },
            }
        }
    }
    template = objects(given)["StatefulSet", "main-share-leader"]["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "a"
    ours, theirs = template["spec"]["containers"]
    assert ours["image"] == IMAGE
    assert ours["resources"]["limits"] == {"memory": "1Gi"}
    assert {"name": "X", "value": "1"} in ours["env"]
    assert len(ours["env"]) > 1
    assert theirs == {"name": "sidecar", "image": "other"}
    assert laid_over({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"c": None}}) == {"b": {}}


def test_a_version_is_the_tag_beside_the_default_image():
    assert image_of("0.2.0", IMAGE) == "registry.local:5000/sharemesh:0.2.0"
    assert image_of("0.2.0", "registry.local:5000/sharemesh") == (
        "registry.local:5000/sharemesh:0.2.0"
    )
    assert image_of("0.2.0", "localhost/sharemesh@sha256:ab") == "localhost/sharemesh:0.2.0"
    assert image_of("", IMAGE) == IMAGE
    assert spec_of({"image": "mine:1", "version": "0.2.0"}).image == "mine:1"


def test_replicas_may_stay_above_what_is_wanted_while_pods_hand_over():
    found = objects(replicas={Role.SHARE_LEADER: 3})
    assert found["StatefulSet", "main-share-leader"]["spec"]["replicas"] == 3
    assert ("Service", "main-share-leader-2") in found
