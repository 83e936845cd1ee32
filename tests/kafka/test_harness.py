"""The brokers that tests start: real ones that are killed, frozen and started again, and kfake."""

import socket

import pytest

from tests.kafka.real_broker import real_brokers

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def reaches(addresses):
    for address in addresses.split(","):
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=5):
            pass


def test_three_brokers_can_be_killed_frozen_and_started_again(tmp_path):
    with real_brokers(tmp_path, 3, listeners=("OTHER",)) as kafka:
        reaches(kafka.bootstrap)
        reaches(kafka.addresses("OTHER"))
        assert len(kafka.bootstrap.split(",")) == 3
        kafka.freeze(3)
        kafka.thaw(3)
        kafka.kill(2)
        kafka.start(2)
        kafka.wait_started()
        reaches(kafka.bootstrap)


def test_tests_share_one_broker(kafka_broker):
    reaches(kafka_broker.bootstrap)


def test_kfake_has_three_brokers(kfake_bootstrap):
    assert len(kfake_bootstrap.split(",")) == 3
    reaches(kfake_bootstrap)
