"""Kafka's command-line tools say at Sharemesh what they say at Apache Kafka."""

import os

import pytest

from tests.kafka.jars import KafkaMissingError
from tests.kafka_listener.command_line_tools import said, steps
from tests.kafka_listener.share_consumer_cases import apache_kafka, sharemesh

pytestmark = [pytest.mark.kafka, pytest.mark.jury, pytest.mark.timeout(900)]

DIFFERS = {
    "share groups offsets in full": "leader epochs begin with 1",
    "share groups delete offsets of an unknown topic": "the sentence says which topic",
}
"""Commands that say something else here, and why."""


def test_each_command_says_what_it_says_at_kafka(tmp_path) -> None:
    """KLS-9 to KLS-11, KLS-17, KLS-40 to KLS-44."""
    found = []
    for name, where in (("kafka", apache_kafka), ("sharemesh", sharemesh)):
        try:
            with where(tmp_path / name, {}) as bootstrap:
                found.append(said(bootstrap.consumers, steps("clt")))
        except KafkaMissingError as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(str(error))
    kafka, ours = found
    others = {name: (kafka[name], ours[name]) for name in kafka if kafka[name] != ours[name]}
    assert {name: each for name, each in others.items() if name not in DIFFERS} == {}
    assert others.keys() == DIFFERS.keys()
