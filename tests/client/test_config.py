"""Names and bounds of configurations (spec CL-2, CL-3, section 25)."""

import pytest

from sharemesh.client.config import (
    REJECTED_BY_SHARE_CONSUMERS,
    bootstrap_addresses,
    consumer_config,
    producer_config,
)
from sharemesh.client.errors import ConfigError, InvalidGroupIdError

GROUP = {"group.id": "g"}


@pytest.mark.parametrize("name", REJECTED_BY_SHARE_CONSUMERS)
def test_names_that_make_no_sense_for_share_groups_are_rejected(name):
    with pytest.raises(ConfigError, match=name):
        consumer_config({**GROUP, name: "x"})


@pytest.mark.parametrize("group_id", [None, "", "  "])
def test_a_group_id_is_needed(group_id):
    with pytest.raises(InvalidGroupIdError):
        consumer_config({} if group_id is None else {"group.id": group_id})


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match=r"did you mean 'max\.poll\.records'"):
        consumer_config({**GROUP, "max.poll.record": 3})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.poll.records", 0),
        ("max.poll.records", "many"),
        ("fetch.max.bytes", -1),
        ("share.acknowledgement.mode", "auto"),
        ("share.acquire.mode", "strict"),
        ("check.crcs", "perhaps"),
    ],
)
def test_values_out_of_bounds_are_refused_by_name(name, value):
    with pytest.raises(ConfigError, match=name):
        consumer_config({**GROUP, name: value})


def test_defaults_are_kafkas():
    config = consumer_config(GROUP)
    assert config.text("share.acknowledgement.mode") == "implicit"
    assert config.text("share.acquire.mode") == "batch_optimized"
    assert config.number("max.poll.records") == 500
    assert config.number("fetch.max.bytes") == 52_428_800


def test_delivery_timeout_must_cover_linger_and_request():
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms"):
        producer_config({"delivery.timeout.ms": 10})


@pytest.mark.parametrize("wrong", ["", "host", "host:", "host:x", ":1", "h:0", "h:70000"])
def test_addresses_are_checked(wrong):
    with pytest.raises(ConfigError):
        bootstrap_addresses(wrong)
    assert bootstrap_addresses(" a:1, b:2 ") == ("a:1", "b:2")


@pytest.mark.parametrize("build", [consumer_config, producer_config])
def test_an_address_in_place_of_settings_is_answered_with_what_takes_one(build):
    with pytest.raises(ConfigError, match=r"connect\('host:port'\)"):
        build("127.0.0.1:9400")
