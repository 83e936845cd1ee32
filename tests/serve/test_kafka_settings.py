"""Settings of a Kafka cluster: each combination that cannot work is one sentence."""

import pytest

from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.settings.sources import ConfigFile, serve_settings

ON_KAFKA = {"storage": "kafka", "kafka_bootstrap_servers": "a:9092, b:9092"}


def with_flags(**more: str) -> ServeSettings:
    return serve_settings({**ON_KAFKA, **more}, {}, ConfigFile())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"kafka_bootstrap_servers": ""}, "needs kafka_bootstrap_servers"),
        ({"kafka_bootstrap_servers": "broker"}, "'broker' is not host:port"),
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
