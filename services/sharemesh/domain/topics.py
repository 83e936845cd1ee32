"""Names, sizes and settings of topics: Kafka's rules."""

import re
from collections.abc import Mapping

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config.definition import (
    INT32_MAX,
    ConfigDefinition,
    ValueKind,
    by_name,
    definition_of,
)

NAME_CHARS_MAX = 249
PARTITIONS_MAX = 10_000
CONFIG_ENTRIES_MAX = 100

CLEANUP_POLICY = "cleanup.policy"
RETENTION_MS = "retention.ms"
RETENTION_BYTES = "retention.bytes"
SEGMENT_BYTES = "segment.bytes"
SEGMENT_MS = "segment.ms"
MAX_MESSAGE_BYTES = "max.message.bytes"
MESSAGE_TIMESTAMP_TYPE = "message.timestamp.type"
COMPRESSION_TYPE = "compression.type"
DURABILITY = "durability"

INT64_MAX = 2**63 - 1
WEEK_MS = 604_800_000
GIB = 1 << 30
MIB = 1 << 20

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def _integer(
    name: str, default: int, minimum: int, maximum: int, documentation: str
) -> ConfigDefinition:
    return ConfigDefinition(
        name, ValueKind.INTEGER, str(default), documentation, minimum=minimum, maximum=maximum
    )


def _choice(name: str, choices: tuple[str, ...], documentation: str) -> ConfigDefinition:
    return ConfigDefinition(name, ValueKind.CHOICE, choices[0], documentation, choices=choices)


TOPIC_CONFIGS = by_name(
    (
        _integer(
            RETENTION_MS,
            WEEK_MS,
            -1,
            INT64_MAX,
            "Milliseconds for which records are kept at least; -1 keeps them for ever.",
        ),
        _integer(
            RETENTION_BYTES,
            -1,
            -1,
            INT64_MAX,
            "Bytes of one partition beyond which its oldest segments go; -1: no limit.",
        ),
        _integer(
            SEGMENT_BYTES, GIB, MIB, INT32_MAX, "Bytes at which a segment ends and another begins."
        ),
        _integer(
            SEGMENT_MS,
            WEEK_MS,
            1,
            INT64_MAX,
            "Milliseconds after which a segment ends although it is not full.",
        ),
        _integer(
            MAX_MESSAGE_BYTES, 1_048_588, 0, INT32_MAX, "Largest record batch in bytes, compressed."
        ),
        _choice(CLEANUP_POLICY, ("delete",), "What happens to old segments; only delete here."),
        _choice(
            MESSAGE_TIMESTAMP_TYPE,
            ("createtime",),
            "Whose time a record carries; only the producer's (CreateTime) here.",
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
    shown = name if len(name) <= NAME_CHARS_MAX else f"{name[:40]}..."
    if not name:
        raise _invalid_name("topic name is empty; give one")
    if name in {".", ".."}:
        raise _invalid_name(f"topic name {name!r} is not allowed; choose another")
    if len(name) > NAME_CHARS_MAX:
        raise _invalid_name(
            f"topic name {shown!r} has {len(name)} characters; at most {NAME_CHARS_MAX}"
        )
    if _NAME.fullmatch(name) is None:
        raise _invalid_name(
            f"topic name {name!r} may only hold letters, digits, dot, underscore and dash (ASCII)"
        )
    return name


def collision(name: str, others: Mapping[str, object]) -> str | None:
    """Return an existing topic whose name differs only in dots and underscores, or None.

    Metrics write both as underscores, so two such topics could not be told apart.
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
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"{len(changes)} settings in one call; send at most {CONFIG_ENTRIES_MAX}",
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
