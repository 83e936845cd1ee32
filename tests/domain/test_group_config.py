"""Definitions, bounds and evaluation of settings: spec CFG."""

import pytest

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config import GroupConfig, InFlightLimitType, IsolationLevel
from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS
from sharemesh.domain.group_config.definition import parse_duration_ms, reset_duration_ms
from sharemesh.domain.group_config.evaluate import (
    MAX_ENTRIES,
    check_cluster_configs,
    check_group_configs,
    described_group_configs,
    effective_group_config,
    out_of_bounds,
)
from sharemesh.domain.group_config.group_definitions import GROUP_CONFIGS


def invalid(call, *args):
    with pytest.raises(RefusedError) as caught:
        call(*args)
    assert caught.value.error is ErrorCode.INVALID_CONFIG
    return caught.value.message


def test_without_settings_the_defaults_are_in_force():
    assert effective_group_config({}, {}) == GroupConfig()


def test_the_in_flight_limit_counts_locks_unless_a_group_says_otherwise():
    """WIN-1: also for a group of before, of which nothing is stored; what was set stays."""
    name = "share.in.flight.limit.type"
    assert effective_group_config({}, {}).in_flight_limit_type is InFlightLimitType.LOCKS
    assert effective_group_config({name: "span"}, {}).in_flight_limit_type is InFlightLimitType.SPAN


def test_defaults_of_the_cluster_fit_together():
    """CFG-1, CFG-2, CFG-4, CFG-6 to CFG-9: each definition takes its own default."""
    assert check_cluster_configs({}) == {}
    for name, definition in CLUSTER_CONFIGS.items():
        if not definition.unsupported:
            assert definition.check(definition.default) == definition.default, name
            assert definition.documentation.endswith("."), name


@pytest.mark.parametrize(
    "entries",
    [
        {"group.share.record.lock.duration.ms": "10000"},
        {"group.share.record.lock.duration.ms": "70000"},
        {
            "group.share.min.record.lock.duration.ms": "20000",
            "group.share.record.lock.duration.ms": "15000",
        },
        {"group.share.delivery.count.limit": "1"},
        {"group.share.delivery.count.limit": "11"},
        {"group.share.partition.max.record.locks": "99"},
        {"group.share.partition.max.record.locks": "10001"},
        {"group.share.max.share.sessions": "199"},
        {"share.coordinator.append.linger.ms": "5000"},
        {"share.coordinator.write.timeout.ms": "10", "share.coordinator.append.linger.ms": "10"},
        {"group.share.heartbeat.interval.ms": "45000"},
        {"group.share.max.size": "1001"},
        {"group.share.assignors": "simple,other"},
        {"group.share.sesion.timeout.ms": "45000"},
        {"group.share.session.timeout.ms": "soon"},
        {"errors.deadletterqueue.topic.name.prefix": "x"},
    ],
)
def test_cluster_settings_that_do_not_fit_are_refused(entries):
    """CFG-2, CFG-4, CFG-6, CFG-7, CFG-8, CFG-15."""
    assert invalid(check_cluster_configs, entries)


def test_cluster_settings_that_fit_are_kept():
    entries = {"group.share.max.size": "1000", "group.share.delivery.count.limit": " 7 "}
    assert check_cluster_configs(entries) == {
        "group.share.max.size": "1000",
        "group.share.delivery.count.limit": "7",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.record.lock.duration.ms", "10000"),
        ("share.record.lock.duration.ms", "70000"),
        ("share.session.timeout.ms", "1"),
        ("share.session.timeout.ms", "70000"),
        ("share.heartbeat.interval.ms", "1"),
        ("share.heartbeat.interval.ms", "70000"),
        ("share.delivery.count.limit", "1"),
        ("share.partition.max.record.locks", "50"),
        ("share.isolation.level", "bad"),
        ("share.renew.acknowledge.enable", "maybe"),
        ("share.auto.offset.reset", "by_duration:-PT1H"),
        ("share.auto.offset.reset", "by_duration:x"),
        ("share.auto.offset.reset", "newest"),
        ("errors.deadletterqueue.topic.name", "__x"),
        ("share.assignment.interval.ms", "15001"),
    ],
)
def test_group_settings_out_of_bounds_are_refused(name, value):
    assert name in invalid(check_group_configs, {name: value}, {}, {})


def test_session_must_be_above_the_heartbeat_interval():
    cluster = {
        "group.share.min.session.timeout.ms": "6000",
        "group.share.max.heartbeat.interval.ms": "15000",
    }
    invalid(
        check_group_configs,
        {"share.session.timeout.ms": "6000", "share.heartbeat.interval.ms": "6000"},
        {},
        cluster,
    )
    assert check_group_configs({"share.session.timeout.ms": "6000"}, {}, cluster)


def test_unknown_names_are_answered_with_the_nearest_known_one():
    assert "share.delivery.count.limit" in invalid(
        check_group_configs, {"share.delivery.limit": "3"}, {}, {}
    )


def test_none_removes_a_setting_and_others_stay():
    stored = {"share.isolation.level": "read_committed", "share.delivery.count.limit": "3"}
    assert check_group_configs({"share.isolation.level": None}, stored, {}) == {
        "share.delivery.count.limit": "3"
    }


@pytest.mark.parametrize(
    ("low", "high", "name", "field", "used"),
    [
        ("10000", "70000", "record.lock.duration.ms", "record_lock_duration_ms", (15_000, 60_000)),
        ("1", "15", "delivery.count.limit", "delivery_count_limit", (2, 10)),
        ("50", "5000", "partition.max.record.locks", "partition_max_record_locks", (100, 4_000)),
        ("1", "70000", "session.timeout.ms", "session_timeout_ms", (45_000, 60_000)),
        ("1", "70000", "heartbeat.interval.ms", "heartbeat_interval_ms", (5_000, 15_000)),
    ],
)
def test_stored_values_out_of_bounds_are_clamped_with_a_warning(low, high, name, field, used):
    for text, value in zip((low, high), used, strict=True):
        entries = {f"share.{name}": text}
        assert getattr(effective_group_config(entries, {}), field) == value
        assert out_of_bounds(entries, {}) == (
            f"share.{name}: stored value {text!r} is out of bounds, {value} is used",
        )


def test_a_group_follows_the_cluster_where_it_has_nothing_of_its_own():
    cluster = {"group.share.delivery.count.limit": "7"}
    assert effective_group_config({}, cluster).delivery_count_limit == 7
    rows = {each.name: each for each in described_group_configs({}, cluster)}
    assert rows["share.delivery.count.limit"].source == "cluster"
    assert rows["share.delivery.count.limit"].value == "7"
    assert len(rows) == sum(not each.unsupported for each in GROUP_CONFIGS.values())


def test_text_settings_are_read():
    config = effective_group_config(
        {
            "share.isolation.level": "read_committed",
            "share.renew.acknowledge.enable": "false",
            "share.auto.offset.reset": "earliest",
        },
        {},
    )
    assert config.isolation_level is IsolationLevel.READ_COMMITTED
    assert not config.renew_acknowledge_enable
    assert config.auto_offset_reset == "earliest"


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT0S", 0),
        ("PT1H", 3_600_000),
        ("P1D", 86_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt0.001s", 1),
        ("PT1M", 60_000),
    ],
)
def test_durations(text, duration_ms):
    assert parse_duration_ms(text) == duration_ms
    assert reset_duration_ms(f"by_duration:{text}") == duration_ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "1H", "PT1", "-PT1H", "PT-1H", "P1Y", "PT1H1H", "P1DT"]
)
def test_texts_that_are_no_duration(text):
    invalid(parse_duration_ms, text)


def test_reset_policies_without_duration():
    assert reset_duration_ms("latest") is None


def test_a_value_that_is_too_long_or_a_duration_beyond_bounds_is_refused():
    name = "share.auto.offset.reset"
    said = invalid(check_group_configs, {name: "x" * 10_000}, {}, {})
    assert "longer than" in said
    assert len(said) < 200
    assert "too long" in invalid(parse_duration_ms, "P999999999D")


def test_stored_settings_that_cannot_be_read_count_as_absent():
    # What an older or newer release stored must not keep a group from being served.
    assert effective_group_config({}, {"group.share.delivery.count.limit": "many"}) == GroupConfig()
    stored = {"share.delivery.count.limit": "many", "share.isolation.level": "unknown"}
    assert effective_group_config(stored, {}) == GroupConfig()


def test_the_cluster_has_no_fewer_share_sessions_than_members():
    entries = {"group.share.max.size": "1000", "group.share.max.share.sessions": "999"}
    said = invalid(check_cluster_configs, entries)
    assert "group.share.max.share.sessions: value 999 is below group.share.max.size 1000" in said


def test_more_settings_than_one_alteration_may_have_are_refused():
    entries = {f"share.unknown.{number}": "1" for number in range(MAX_ENTRIES + 1)}
    assert str(MAX_ENTRIES) in invalid(check_group_configs, entries, {}, {})


def test_a_text_is_kept_without_blanks_around_it():
    definition = CLUSTER_CONFIGS["errors.deadletterqueue.topic.name.prefix"]
    assert definition.check(" dlq. ") == "dlq."


def test_the_cluster_s_heartbeat_interval_is_below_its_session_time_out():
    entries = {
        "group.share.heartbeat.interval.ms": "45000",
        "group.share.max.heartbeat.interval.ms": "45000",
        "group.share.session.timeout.ms": "45000",
    }
    said = invalid(check_cluster_configs, entries)
    assert "group.share.heartbeat.interval.ms: value 45000 is not below" in said


def test_rty_4_and_rty_5_the_settings_of_a_back_off_are_read_in_their_one_spelling():
    settings = {
        "share.retry.backoff.ms": "500",
        "share.retry.backoff.multiplier": "1.50",
        "share.retry.backoff.jitter": "0",
        "share.retry.backoff.on.timeout": "TRUE",
        "share.retry.schedule": " 1000ms, 10s,90s ,1h,24h",
    }
    stored = check_group_configs(settings, {}, {})
    assert stored["share.retry.backoff.multiplier"] == "1.5"
    assert stored["share.retry.schedule"] == "1s,10s,90s,1h,1d"
    retry = effective_group_config(stored, {}).retry
    assert (retry.backoff_ms, retry.max_ms, retry.multiplier, retry.jitter) == (
        500,
        600_000,
        1.5,
        0,
    )
    assert retry.on_timeout
    assert retry.schedule_ms == (1_000, 10_000, 90_000, 3_600_000, 86_400_000)
    assert not effective_group_config({}, {}).retry.is_set
    described = {each.name: each.value for each in described_group_configs(stored, {})}
    assert described["share.retry.backoff.max.ms"] == "600000"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("share.retry.backoff.ms", "86400001", "not within"),
        ("share.retry.backoff.ms", "600001", "is above share.retry.backoff.max.ms"),
        ("share.retry.backoff.multiplier", "0.5", "not within 1..100"),
        ("share.retry.backoff.jitter", "nan", "is not a number"),
        ("share.retry.backoff.jitter", "1.1", "not within 0..1"),
        ("share.retry.backoff.jitter", "a bit", "is not a number"),
        ("share.retry.schedule", "1s,,2s", "give delays such as"),
        ("share.retry.schedule", "2d", "1ms to 1d"),
        ("share.retry.schedule", ",".join(["1s"] * 33), "at most 32"),
    ],
)
def test_rty_4_a_back_off_that_cannot_be_is_refused_in_words(name, value, why):
    with pytest.raises(RefusedError, match=why):
        check_group_configs({name: value}, {}, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.retry.backoff.ms", "{}"),
        ("share.retry.backoff.multiplier", "{}"),
        ("share.retry.schedule", "1s,{}s"),
        ("share.auto.offset.reset", "by_duration:PT{}S"),
        ("share.auto.offset.reset", "by_duration:P{}D"),
    ],
)
@pytest.mark.parametrize("digits", ["\uff11\uff10", "\u0663", "1_0"])
def test_cfg_43_numbers_are_written_in_the_digits_0_to_9(name, value, digits):
    with pytest.raises(RefusedError, match=name) as refused:
        check_group_configs({name: value.format(digits)}, {}, {})
    assert refused.value.error is ErrorCode.INVALID_CONFIG
    check_group_configs({name: value.format("10")}, {}, {})
