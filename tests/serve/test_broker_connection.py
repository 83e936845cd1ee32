"""How the Kafka cluster of a process is reached, by its settings (spec KBR)."""

import logging
from random import Random

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.kafka.security import SecurityProtocol
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.broker_connection import connect_brokers


async def said(caplog, tmp_path, security, mechanism):
    caplog.set_level(logging.WARNING)
    secret = tmp_path / "secret"
    secret.write_text("gray cat")
    more = {}
    if SecurityProtocol(security).logs_in and mechanism == "OAUTHBEARER":
        more = {"kafka_oauth_token_file": secret}
    elif SecurityProtocol(security).logs_in:
        more = {"kafka_sasl_username": "me", "kafka_sasl_password_file": secret}
    settings = ServeSettings(
        storage="kafka",
        kafka_bootstrap_servers=("127.0.0.1:9092",),
        kafka_security=security,
        kafka_sasl_mechanism=mechanism,
        **more,
    )
    await connect_brokers(settings, SystemClock(), Random(1)).close()
    return [each.getMessage() for each in caplog.records]


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
async def test_kbr_11_a_secret_in_clear_text_is_warned_of_once(caplog, tmp_path, mechanism):
    (line,) = await said(caplog, tmp_path, "sasl_plaintext", mechanism)
    assert "clear text" in line
    assert "kafka_security=sasl_tls" in line
    assert "gray cat" not in line


@pytest.mark.parametrize(
    ("security", "mechanism"),
    [("sasl_plaintext", "SCRAM-SHA-512"), ("sasl_tls", "PLAIN"), ("plaintext", "PLAIN")],
)
async def test_kbr_11_no_warning_where_no_secret_is_sent_in_clear_text(
    caplog, tmp_path, security, mechanism
):
    assert await said(caplog, tmp_path, security, mechanism) == []


PASSWORD = {"kafka_security": "sasl_plaintext", "kafka_sasl_username": "me"}
TOKEN = {"kafka_security": "sasl_tls", "kafka_sasl_mechanism": "OAUTHBEARER"}


@pytest.mark.parametrize(
    ("setting", "others"),
    [
        ("kafka_sasl_password_file", PASSWORD),
        ("kafka_oauth_token_file", TOKEN),
        ("kafka_tls_authority", {"kafka_security": "tls"}),
    ],
)
@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_kbr_11_a_file_that_cannot_be_used_ends_a_start_as_a_setting(
    tmp_path, setting, others, content
):
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    settings = ServeSettings(
        storage="kafka",
        kafka_bootstrap_servers=("127.0.0.1:9092",),
        **{setting: file},
        **others,
    )
    with pytest.raises(StartError, match=f"{setting} {file} ") as caught:
        connect_brokers(settings, SystemClock(), Random(1))
    assert caught.value.code is ExitCode.SETTINGS
