"""Checking settings before they are stored (CFG-40, CFG-41) and evaluating stored ones."""

from collections.abc import Mapping
from dataclasses import dataclass

from sharemesh.domain.errors import RefusedError, invalid_config
from sharemesh.domain.group_config import (
    GroupConfig,
    InFlightLimitType,
    IsolationLevel,
    group_definitions,
)
from sharemesh.domain.group_config.cluster_definitions import (
    CLUSTER_CONFIGS,
    MAX_SHARE_SESSIONS,
    MAX_SIZE,
    STATE_APPEND_LINGER,
    STATE_WRITE_TIMEOUT,
    TRIPLES,
)
from sharemesh.domain.group_config.definition import ConfigDefinition, definition_of
from sharemesh.domain.group_config.group_definitions import GROUP_CONFIGS
from sharemesh.domain.group_config.retry_delays import RetryDelays, parse_schedule

MAX_ENTRIES = 100
"""Most settings in one alteration."""


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One setting as it is in force; ``source`` is default, cluster or group."""

    name: str
    value: str
    source: str
    documentation: str


def cluster_value(cluster: Mapping[str, str], name: str) -> str:
    """Return a setting of the cluster, or its default; unreadable stored text counts as absent."""
    return _readable(CLUSTER_CONFIGS[name], cluster)


def cluster_int(cluster: Mapping[str, str], name: str) -> int:
    """Return an integer setting of the cluster, or its default."""
    return int(cluster_value(cluster, name))


def check_cluster_configs(entries: Mapping[str, str]) -> dict[str, str]:
    """Return the cluster's settings in their one spelling if they fit together (spec CFG-40).

    Raises:
        RefusedError: INVALID_CONFIG; a name or value is wrong, a default is not within its
            bounds, heartbeat interval not below session time-out, fewer sessions than members,
            a linger not below the write time-out.
    """
    checked = {
        name: definition_of(CLUSTER_CONFIGS, name).check(text) for name, text in entries.items()
    }
    for stem in TRIPLES:
        low, value, high = (
            cluster_int(checked, f"group.share.{prefix}{stem}") for prefix in ("min.", "", "max.")
        )
        if not low <= value <= high:
            raise invalid_config(
                f"group.share.{stem}: value {value} is not within {low}..{high} "
                f"(group.share.min.{stem}, group.share.max.{stem})"
            )
    heartbeat_ms = cluster_int(checked, "group.share.heartbeat.interval.ms")
    session_ms = cluster_int(checked, "group.share.session.timeout.ms")
    if heartbeat_ms >= session_ms:
        raise invalid_config(
            f"group.share.heartbeat.interval.ms: value {heartbeat_ms} is not below "
            f"group.share.session.timeout.ms {session_ms}"
        )
    if cluster_int(checked, MAX_SHARE_SESSIONS) < cluster_int(checked, MAX_SIZE):
        raise invalid_config(
            f"{MAX_SHARE_SESSIONS}: value {cluster_int(checked, MAX_SHARE_SESSIONS)} is below "
            f"{MAX_SIZE} {cluster_int(checked, MAX_SIZE)}; raise it"
        )
    if cluster_int(checked, STATE_APPEND_LINGER) >= cluster_int(checked, STATE_WRITE_TIMEOUT):
        raise invalid_config(
            f"{STATE_APPEND_LINGER}: value {cluster_int(checked, STATE_APPEND_LINGER)} is not "
            f"below {STATE_WRITE_TIMEOUT} {cluster_int(checked, STATE_WRITE_TIMEOUT)}; no write "
            "would be in time"
        )
    return checked


def check_group_configs(
    changes: Mapping[str, str | None], stored: Mapping[str, str], cluster: Mapping[str, str]
) -> dict[str, str]:
    """Return all settings of a group after ``changes`` (None: back to the default), spec CFG-41.

    Settings that were stored before and do not change are kept as they are, in bounds or not.

    Raises:
        RefusedError: INVALID_CONFIG; unknown name (with the nearest one), setting not in this
            version, value unreadable or out of the cluster's bounds, session time-out not above
            the heartbeat interval, more than ``MAX_ENTRIES``.
    """
    if len(changes) > MAX_ENTRIES:
        raise invalid_config(f"{len(changes)} settings in one call; send at most {MAX_ENTRIES}")
    result = dict(stored)
    for name, text in changes.items():
        definition = definition_of(GROUP_CONFIGS, name)
        if text is None:
            result.pop(name, None)
            continue
        value = definition.check(text)
        _check_bounds(definition, value, cluster)
        result[name] = value
    config = effective_group_config(result, cluster)
    if config.session_timeout_ms <= config.heartbeat_interval_ms:
        raise invalid_config(
            f"{group_definitions.SESSION_TIMEOUT}: value {config.session_timeout_ms} is not above "
            f"{group_definitions.HEARTBEAT_INTERVAL} {config.heartbeat_interval_ms}"
        )
    if config.retry.backoff_ms > config.retry.max_ms:
        raise invalid_config(
            f"{group_definitions.RETRY_BACKOFF}: value {config.retry.backoff_ms} is above "
            f"{group_definitions.RETRY_BACKOFF_MAX} {config.retry.max_ms}"
        )
    return result


def effective_group_config(entries: Mapping[str, str], cluster: Mapping[str, str]) -> GroupConfig:
    """Return the settings in force: the group's over the cluster's, clamped (spec CFG-41)."""
    return GroupConfig(
        record_lock_duration_ms=_clamped(group_definitions.RECORD_LOCK_DURATION, entries, cluster),
        delivery_count_limit=_clamped(group_definitions.DELIVERY_COUNT_LIMIT, entries, cluster),
        partition_max_record_locks=_clamped(
            group_definitions.PARTITION_MAX_RECORD_LOCKS, entries, cluster
        ),
        renew_acknowledge_enable=_text(group_definitions.RENEW_ACKNOWLEDGE_ENABLE, entries)
        == "true",
        isolation_level=IsolationLevel[_text(group_definitions.ISOLATION_LEVEL, entries).upper()],
        auto_offset_reset=_text(group_definitions.AUTO_OFFSET_RESET, entries),
        session_timeout_ms=_clamped(group_definitions.SESSION_TIMEOUT, entries, cluster),
        heartbeat_interval_ms=_clamped(group_definitions.HEARTBEAT_INTERVAL, entries, cluster),
        assignment_interval_ms=_clamped(group_definitions.ASSIGNMENT_INTERVAL, entries, cluster),
        in_flight_limit_type=InFlightLimitType(
            _text(group_definitions.IN_FLIGHT_LIMIT_TYPE, entries)
        ),
        partition_max_runs=_clamped(group_definitions.PARTITION_MAX_RUNS, entries, cluster),
        paused=_text(group_definitions.PAUSED, entries) == "true",
        retry=_retry_delays(entries),
    )


def _retry_delays(entries: Mapping[str, str]) -> RetryDelays:
    """Return the back-off of a group (spec RTY-4 to RTY-6)."""
    return RetryDelays(
        backoff_ms=int(_text(group_definitions.RETRY_BACKOFF, entries)),
        max_ms=int(_text(group_definitions.RETRY_BACKOFF_MAX, entries)),
        multiplier=float(_text(group_definitions.RETRY_BACKOFF_MULTIPLIER, entries)),
        jitter=float(_text(group_definitions.RETRY_BACKOFF_JITTER, entries)),
        on_timeout=_text(group_definitions.RETRY_BACKOFF_ON_TIMEOUT, entries) == "true",
        schedule_ms=parse_schedule(_text(group_definitions.RETRY_SCHEDULE, entries)),
    )


def described_group_configs(
    entries: Mapping[str, str], cluster: Mapping[str, str]
) -> tuple[EffectiveValue, ...]:
    """Return each supported setting of a group with the value in force and where it is from."""
    described = []
    for definition in GROUP_CONFIGS.values():
        if definition.unsupported:
            continue
        if definition.name in entries:
            source = "group"
        else:
            source = "cluster" if definition.fallback in cluster else "default"
        if definition.fallback:
            value = str(_clamped(definition.name, entries, cluster))
        else:
            value = _text(definition.name, entries)
        described.append(EffectiveValue(definition.name, value, source, definition.documentation))
    return tuple(described)


def out_of_bounds(entries: Mapping[str, str], cluster: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning for each stored setting that is clamped when evaluated (spec CFG-41)."""
    warnings = []
    for name, text in entries.items():
        definition = GROUP_CONFIGS.get(name)
        if definition is None or not definition.fallback:
            continue
        used = _clamped(name, entries, cluster)
        if text != str(used):
            warnings.append(f"{name}: stored value {text!r} is out of bounds, {used} is used")
    return tuple(warnings)


def _check_bounds(definition: ConfigDefinition, value: str, cluster: Mapping[str, str]) -> None:
    if not definition.at_least:
        return
    low = cluster_int(cluster, definition.at_least)
    high = cluster_int(cluster, definition.at_most)
    if not low <= int(value) <= high:
        raise invalid_config(
            f"{definition.name}: value {value} is not within {low}..{high} "
            f"({definition.at_least}, {definition.at_most})"
        )


def _clamped(name: str, entries: Mapping[str, str], cluster: Mapping[str, str]) -> int:
    definition = GROUP_CONFIGS[name]
    if not definition.fallback:  # a setting that the cluster has no say in
        return int(_readable(definition, entries))
    value = cluster_int(cluster, definition.fallback)
    if name in entries:
        try:
            value = int(entries[name])
        except ValueError:
            return value
    low = cluster_int(cluster, definition.at_least)
    high = cluster_int(cluster, definition.at_most)
    return max(low, min(high, value))


def _text(name: str, entries: Mapping[str, str]) -> str:
    return _readable(GROUP_CONFIGS[name], entries)


def _readable(definition: ConfigDefinition, stored: Mapping[str, str]) -> str:
    """Return what is stored, or the default if nothing is that can be read."""
    try:
        return definition.check(stored[definition.name])
    except (KeyError, RefusedError):
        return definition.default
