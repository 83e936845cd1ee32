"""Names, sizes and settings of topics: Kafka's rules."""

import re
from collections.abc import Mapping

from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_config
from sharemesh.domain.group_config.definition import (
    ConfigDefinition,
    ValueKind,
    by_name,
    definition_of,
    integer,
)
from sharemesh.domain.ids import check_topic_name_length

PARTITIONS_MAX = 10_000
CONFIG_ENTRIES_MAX = 100

CLEANUP_POLICY = "cleanup.policy"
RETENTION_MS = "retention.ms"
RETENTION_BYTES = "retention.bytes"
SEGMENT_BYTES = "segment.bytes"
SEGMENT_MS = "segment.ms"
MAX_MESSAGE_BYTES = "max.message.bytes"
MESSAGE_TIMESTAMP_TYPE = "message.timestamp.type"
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = "message.timestamp.before.max.ms"
MESSAGE_TIMESTAMP_AFTER_MAX_MS = "message.timestamp.after.max.ms"
COMPRESSION_TYPE = "compression.type"
DURABILITY = "durability"

INT64_MAX = 2**63 - 1
HOUR_MS = 3_600_000
WEEK_MS = 604_800_000
GIB = 1 << 30
MIB = 1 << 20

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def _choice(name: str, choices: tuple[str, ...], documentation: str) -> ConfigDefinition:
    return ConfigDefinition(name, ValueKind.CHOICE, choices[0], documentation, choices=choices)


TOPIC_CONFIGS = by_name(
    (
        integer(
            RETENTION_MS,
            "Milliseconds for which records are kept at least; -1 keeps them for ever.",
            WEEK_MS,
            minimum=-1,
            maximum=INT64_MAX,
        ),
        integer(
            RETENTION_BYTES,
            "Bytes of one partition beyond which its oldest segments go; -1: no limit.",
            -1,
            minimum=-1,
            maximum=INT64_MAX,
        ),
        integer(
            SEGMENT_BYTES, "Bytes at which a segment ends and another begins.", GIB, minimum=MIB
        ),
        integer(
            SEGMENT_MS,
            "Milliseconds after which a segment ends although it is not full.",
            WEEK_MS,
            maximum=INT64_MAX,
        ),
        integer(
            MAX_MESSAGE_BYTES, "Largest record batch in bytes, compressed.", 1_048_588, minimum=0
        ),
        _choice(CLEANUP_POLICY, ("delete",), "What happens to old segments; only delete here."),
        _choice(
            MESSAGE_TIMESTAMP_TYPE,
            ("createtime",),
            "Whose time a record carries; only the producer's (CreateTime) here.",
        ),
        integer(
            MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
            "Milliseconds that a record's time may lie before the leader's clock.",
            INT64_MAX,
            minimum=0,
            maximum=INT64_MAX,
        ),
        integer(
            MESSAGE_TIMESTAMP_AFTER_MAX_MS,
            "Milliseconds that a record's time may lie after the leader's clock.",
            HOUR_MS,
            minimum=0,
            maximum=INT64_MAX,
        ),
        _choice(COMPRESSION_TYPE, ("producer",), "Batches stay as the producer compressed them."),
        _choice(
            DURABILITY,
            ("fsync", "os"),
            "fsync: confirmed records are on disk. os: they may be lost with the machine.",
        ),
    )
)
"""Every setting a topic may have, by name."""


def check_topic_name(name: str) -> str:
    """Return the name if a topic may have it: 1 to 249 of a-z, A-Z, 0-9, dot, dash, underscore.

    Raises:
        RefusedError: INVALID_TOPIC_EXCEPTION.
    """
    check_topic_name_length(name)
    if name in {".", ".."}:
        raise _invalid_name(f"topic name {name!r} is not allowed; choose another")
    if _NAME.fullmatch(name) is None:
        raise _invalid_name(
            f"topic name {name!r} may only hold letters, digits, dot, underscore and dash (ASCII)"
        )
    return name


def collision(name: str, others: Mapping[str, object]) -> str | None:
    """Return an existing topic whose name differs only in dots and underscores, or None.

    Metrics write both as underscores, so two such topics could not be distinguished.
    """
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    return next((other for other in others if other.replace(".", "_") == folded), None)


def check_partitions(partitions: int, *, existing: int = 0) -> int:
    """Return the number of partitions if a topic may have it: above ``existing``, at most 10,000.

    Raises:
        RefusedError: INVALID_PARTITIONS.
    """
    if partitions <= existing:
        more = f"more than the {existing} it has" if existing else "at least 1"
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions; a topic needs {more}"
        )
    if partitions > PARTITIONS_MAX:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"{partitions} partitions; at most {PARTITIONS_MAX} in one topic",
        )
    return partitions


def check_topic_configs(
    changes: Mapping[str, str | None], stored: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a topic's settings after ``changes`` (None: back to the default).

    Raises:
        RefusedError: INVALID_CONFIG; unknown name (with the nearest one), value unreadable or
            out of bounds, or more than ``CONFIG_ENTRIES_MAX``.
    """
    if len(changes) > CONFIG_ENTRIES_MAX:
        raise invalid_config(
            f"{len(changes)} settings in one call; send at most {CONFIG_ENTRIES_MAX}"
        )
    result = dict(stored or {})
    for name, value in changes.items():
        definition = definition_of(TOPIC_CONFIGS, name)
        if value is None:
            result.pop(name, None)
        else:
            result[name] = definition.check(value)
    return result


def topic_config(configs: Mapping[str, str], name: str) -> str:
    """Return a setting in force: what is stored, or the default."""
    return configs.get(name, TOPIC_CONFIGS[name].default)


def topic_config_int(configs: Mapping[str, str], name: str) -> int:
    """Return an integer setting in force."""
    return int(topic_config(configs, name))


def _invalid_name(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
