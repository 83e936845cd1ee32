"""Settings of a Kafka cluster: each combination that cannot work is one sentence."""

from dataclasses import replace

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.kafka_settings import check_kafka_listener_is_on
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.settings.sources import ConfigFile, serve_settings
from sharemesh.serve.supervise.local_cluster import LocalCluster, kafka_addresses

ON_KAFKA = {"storage": "kafka", "kafka_bootstrap_servers": "a:9092, b:9092"}


def with_flags(**more: str) -> ServeSettings:
    return serve_settings({**ON_KAFKA, **more}, {}, ConfigFile())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"kafka_bootstrap_servers": ""}, "needs kafka_bootstrap_servers"),
        ({"kafka_bootstrap_servers": "broker"}, "'broker' is not host:port"),
        (
            {"kafka_bootstrap_servers": "a:9092,kafka://b:9092"},
            "leave kafka:// out before 'b:9092', which must be host:port, and .* kafka_security",
        ),
        ({"kafka_bootstrap_servers": "//b:9092"}, "'//b:9092' is not host:port"),
        ({"kafka_bootstrap_servers": "b:90921"}, "'b:90921' is not host:port"),
        ({"kafka_bootstrap_servers": "b:٩٠٩٢"}, "'b:٩٠٩٢' is not host:port"),
        ({"kafka_bootstrap_servers": ",".join(["a:1"] * 101)}, "name at most 100"),
        ({"storage": "embedded"}, "setting kafka_bootstrap_servers has a meaning with storage"),
        ({"storage": "kafak"}, "did you mean kafka"),
        ({"durability": "os"}, "durability has no meaning"),
        ({"kafka_tls_authority": "ca.pem"}, "needs kafka_security tls or sasl_tls"),
        ({"kafka_security": "tls", "kafka_tls_key": "k"}, "go together"),
        ({"kafka_sasl_username": "u"}, "needs kafka_security sasl_tls"),
        ({"kafka_security": "sasl_tls"}, "SCRAM-SHA-512 needs kafka_sasl_username"),
        (
            {"kafka_security": "sasl_tls", "kafka_sasl_username": "u"},
            "needs kafka_sasl_password_file",
        ),
        (
            {"kafka_security": "sasl_tls", "kafka_oauth_token_file": "t"},
            "does not go with kafka_sasl_mechanism SCRAM-SHA-512",
        ),
        (
            {"kafka_security": "sasl_tls", "kafka_sasl_mechanism": "OAUTHBEARER"},
            "needs one of kafka_oauth_token_file",
        ),
        (
            {
                "kafka_security": "sasl_tls",
                "kafka_sasl_mechanism": "OAUTHBEARER",
                "kafka_oauth_provider": "tokens",
            },
            "'tokens' is not module:function",
        ),
        ({"kafka_topic_prefix": "a b"}, "set kafka_topic_prefix to letters"),
        ({"kafka_topics": "orders/*"}, "'orders/\\*' is no pattern"),
        ({"kafka_replication_factor": "1"}, "2 copies cannot have a write"),
        ({"kafka_min_insync_replicas": "1"}, "set kafka_single_replica to true"),
        (
            {"kafka_single_replica": "true", "kafka_replication_factor": "2"},
            "kafka_single_replica means one copy",
        ),
        ({"kafka_topic_grace_ms": "-1"}, "not within 0..604800000"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence_that_names_the_setting(flags, words) -> None:
    with pytest.raises(StartError, match=words) as caught:
        with_flags(**flags)
    assert caught.value.code is ExitCode.SETTINGS


def test_two_servers_are_all_that_is_needed() -> None:
    settings = with_flags()
    assert settings.kafka_bootstrap_servers == ("a:9092", "b:9092")
    assert settings.own_topic_prefix == "__sharemesh-local-"
    assert settings.own_topic_replicas == (3, 2)


def test_a_single_replica_is_asked_for_and_then_both_numbers_are_one() -> None:
    asked = with_flags(kafka_single_replica="true")
    both = with_flags(
        kafka_single_replica="true", kafka_replication_factor="1", kafka_min_insync_replicas="1"
    )
    assert asked.own_topic_replicas == both.own_topic_replicas == (1, 1)


def test_a_login_by_password_or_token() -> None:
    password = with_flags(
        kafka_security="sasl_tls", kafka_sasl_username="u", kafka_sasl_password_file="p"
    )
    assert password.kafka_sasl_mechanism == "SCRAM-SHA-512"
    token = with_flags(
        kafka_security="sasl_plaintext",
        kafka_sasl_mechanism="OAUTHBEARER",
        kafka_oauth_provider="tokens.of_msk:token",
    )
    assert token.kafka_oauth_provider == "tokens.of_msk:token"


TLS = {"tls_certificate": "c", "tls_key": "k"}


def listening(**more: str) -> ServeSettings:
    return serve_settings({"kafka_listener_port": "0", **more}, {}, ConfigFile())


def test_a_listener_for_clients_of_kafka_is_off_by_default() -> None:
    """KLS-2; and it goes with either engine."""
    assert not serve_settings({}, {}, ConfigFile()).has_kafka_listener
    assert listening().has_kafka_listener
    assert with_flags(kafka_listener_port="9092").has_kafka_listener


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"principal_header": "x-user"}, "does not go with principal_header"),
        ({"kafka_listener_sasl_mechanisms": "GSSAPI"}, "'GSSAPI' is none of PLAIN, SCRAM-SHA-256"),
        ({"kafka_listener_sasl_mechanisms": "PLAIN"}, "over TLS only; set tls_certificate"),
        ({**TLS, "kafka_listener_sasl_mechanisms": "OAUTHBEARER"}, "needs token_issuer"),
        ({"kafka_listener_max_reauth_ms": "60000"}, "with kafka_listener_sasl_mechanisms only"),
        ({"kafka_listener_host": "0.0.0.0"}, "set kafka_listener_advertised_host"),
        ({"kafka_listener_port": "65536"}, "not within -1..65535"),
        ({"kafka_listener_connections": "9"}, "not within 10..100000"),
        ({"kafka_listener_held_bytes": "1"}, "not within 33554432.."),
        ({"kafka_listener_idle_ms": "9999"}, "not within 10000..86400000"),
        ({"kafka_listener_max_reauth_ms": "-1"}, "not within 0..86400000"),
        ({"kafka_listener_advertised_port": "65536"}, "not within 0..65535"),
        ({"kafka_listener_advertised_port_base": "-1"}, "not within 0..65535"),
        (
            {"kafka_listener_advertised_port": "1", "kafka_listener_advertised_port_base": "1"},
            "a process has one port; set one of them",
        ),
        (
            {"node_id": "leader-7", "kafka_listener_advertised_port_base": "65530"},
            "the number of node leader-7 are no port: choose a lower one",
        ),
    ],
)
def test_settings_of_a_listener_that_do_not_fit_are_refused(flags, words) -> None:
    """KLS-2, KLS-21."""
    with pytest.raises(StartError, match=words) as caught:
        listening(**flags)
    assert caught.value.code is ExitCode.SETTINGS


@pytest.mark.parametrize(
    "flags",
    [
        {"authorizer": "acl"},
        TLS,
        {"kafka_listener_sasl_mechanisms": "SCRAM-SHA-512"},
        {**TLS, "kafka_listener_sasl_mechanisms": "PLAIN,SCRAM-SHA-256"},
        {"principal_header": "x-user", "kafka_listener_sasl_mechanisms": "SCRAM-SHA-512"},
        {**TLS, "tls_authority": "a", "principal_header": "x-user"},
    ],
)
def test_a_listener_goes_with_tls_and_access_rules(flags) -> None:
    """KLS-2, KLS-19."""
    assert listening(**flags).has_kafka_listener


def test_the_port_that_is_told_counts_up_from_process_to_process() -> None:
    """KLS-50."""

    def told(**flags: str) -> int:
        return listening(**flags).kafka_port_to_advertise

    assert told() == 0
    assert told(kafka_listener_advertised_port="9092") == 9092
    assert (
        told(node_id="main-share-leader-12", kafka_listener_advertised_port_base="30900") == 30912
    )
    assert told(node_id="alone", kafka_listener_advertised_port_base="30900") == 30900


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka_listener_host", "127.0.0.1"),
        ("kafka_listener_advertised_port_base", "30900"),
        ("kafka_listener_sasl_mechanisms", "SCRAM-SHA-512"),
        ("kafka_listener_connections", "10"),
    ],
)
def test_a_setting_of_a_listener_that_is_not_there_is_refused(name, value, tmp_path) -> None:
    """KLS-2: but in roles that never have one."""
    settings = serve_settings({name: value}, {}, ConfigFile())
    with pytest.raises(StartError, match=f"setting {name} has a meaning with a listener") as caught:
        check_kafka_listener_is_on(settings)
    assert "set kafka_listener_port" in caught.value.message
    with pytest.raises(StartError, match="`sharemesh up`: kafka_listener"):
        LocalCluster(settings, UpSettings(), clock=SystemClock())
    check_kafka_listener_is_on(replace(settings, role="share-coordinator"))
    check_kafka_listener_is_on(replace(settings, kafka_listener_port=0))


def test_the_processes_of_up_listen_on_ports_that_follow() -> None:
    """KLS-2: share leaders first, as bootstrap addresses."""
    up = UpSettings(kafka_listener="127.0.0.1:9092", share_leaders=2, group_coordinators=1)
    assert kafka_addresses(up) == {
        "share-leader-0": ("127.0.0.1", 9092),
        "share-leader-1": ("127.0.0.1", 9093),
        "group-coordinator-0": ("127.0.0.1", 9094),
    }
    free = UpSettings(kafka_listener="[::1]:0", share_leaders=1, group_coordinators=1)
    assert set(kafka_addresses(free).values()) == {("::1", 0)}
    assert kafka_addresses(UpSettings()) == {}


@pytest.mark.parametrize("text", ["9092", ":9092", "h:", "h:x", "h:65534"])
def test_an_address_that_is_none_is_said(text) -> None:
    with pytest.raises(StartError, match="is not HOST:PORT"):
        kafka_addresses(UpSettings(kafka_listener=text))


def test_up_with_a_listener_is_refused_before_anything_starts(tmp_path) -> None:
    """KLS-2."""
    serve = ServeSettings(data_directory=tmp_path, principal_header="x-user")
    with pytest.raises(StartError, match="does not go with principal_header"):
        LocalCluster(serve, UpSettings(kafka_listener="h:1"), clock=SystemClock())
