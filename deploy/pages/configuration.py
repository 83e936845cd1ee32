"""docs/reference/configuration.md: every setting, from its definition."""

from collections.abc import Iterable, Mapping
from typing import Any

from deploy.pages import REFERENCE
from sharemesh.client.config import (
    ADMIN_SETTINGS,
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    Setting,
)
from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS
from sharemesh.domain.group_config.definition import INT32_MAX, ConfigDefinition
from sharemesh.domain.group_config.group_definitions import GROUP_CONFIGS
from sharemesh.domain.topics import INT64_MAX, TOPIC_CONFIGS
from sharemesh.serve.settings.settings import ServeSettings, UpSettings, names_of
from sharemesh.serve.settings.sources import ENVIRONMENT_PREFIX

PAGE = REFERENCE / "configuration.md"

RESTART = frozenset(
    {
        "group.share.max.share.sessions",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.snapshot.update.records.per.snapshot",
        "share.coordinator.write.timeout.ms",
        "share.coordinator.state.topic.prune.interval.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.append.linger.ms",
        "state.log.spark.grace.ms",
    }
)
"""Read when a process starts."""

ACCEPTED = frozenset(
    {
        "share.fetch.purgatory.purge.interval.requests",
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.threads",
        "share.coordinator.load.buffer.size",
        "share.coordinator.cached.buffer.max.bytes",
    }
)
"""Known, checked, stored, and without effect here."""

TOPIC_ACCEPTED = frozenset({"segment.ms", "durability"})

INTRODUCTION = """# Configuration

This page is made from the code: `make docs` writes it, and a test
fails when it does not fit. Bounds are inclusive. `sharemesh configs explain NAME` says the same
about one name.

## Processes

Settings of one process of `sharemesh serve`, and of every process that `sharemesh up` starts. A
flag (`--data-directory`) wins over an environment variable (`SHAREMESH_DATA_DIRECTORY`), which
wins over the TOML or YAML file of `--config`. All are read when the process starts.
"""

UP = """
## The local cluster

The table `[up]` of the file, or flags of `sharemesh up`.
"""

CLUSTER = """
## Cluster

Kafka's names. They are stored in etcd: `--set NAME=VALUE` and the table `[settings]` of the file
give first values (`sharemesh up` brings the stored ones up to the file, a single `sharemesh
serve` only adds those never set), `sharemesh configs alter --cluster NAME=VALUE` changes them,
all names of one call or none.

When a change takes effect: **at once** means in every process, as soon as its watch of etcd shows
it; **restart** means when the share-leader and share-coordinator processes start again, one by
one (Kafka needs a restart for these as well); **none** means that Kafka's name is accepted and
checked so that a Kafka configuration can be taken over, but there is nothing here that it could
change.
"""

GROUP = """
## Groups

`sharemesh configs alter --group G NAME=VALUE`. Changes take effect at once. The bounds are those
of the cluster at the time of the change; a value that the cluster's bounds leave out later is
used as the nearest bound.
"""

TOPIC = """
## Topics

`sharemesh topics create T --config NAME=VALUE`, later `sharemesh configs alter --topic T
NAME=VALUE`. Changes reach the logs at once; retention is applied every 5 minutes. **none**:
accepted for Kafka's sake, without effect in this version (segments end by size; durability is a
setting of the process).
"""

CLIENTS = """
## Clients

Read when the client is made. Names not listed are refused, with the nearest one.
"""


def page() -> str:
    """Return the whole page."""
    parts = [
        INTRODUCTION,
        _process_table(ServeSettings, environment=True),
        UP,
        _process_table(UpSettings, environment=False),
        CLUSTER,
        _definitions(CLUSTER_CONFIGS, RESTART, ACCEPTED),
        GROUP,
        _definitions(GROUP_CONFIGS, frozenset(), frozenset()),
        TOPIC,
        _definitions(TOPIC_CONFIGS, frozenset(), TOPIC_ACCEPTED),
        CLIENTS,
    ]
    for title, settings in (
        ("Share consumer", CONSUMER_SETTINGS),
        ("Producer", PRODUCER_SETTINGS),
        ("Admin client and commands", ADMIN_SETTINGS),
    ):
        parts.append(f"\n### {title}\n")
        parts.append(_clients(settings))
    return "\n".join(parts)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _process_table(record: type[Any], *, environment: bool) -> str:
    rows = []
    for name in names_of(record):
        each = record.__dataclass_fields__[name]
        about = each.metadata
        default = each.default
        shown = ",".join(default) if isinstance(default, tuple) else str(default)
        allowed = " or ".join(f"`{choice}`" for choice in about["choices"])
        if about["minimum"] is not None:
            allowed = f"{about['minimum']} to {about['maximum']}"
        row = (
            f"`{name}`",
            "none" if default in (None, "", ()) else f"`{shown}`",
            allowed,
            about["documentation"],
        )
        rows.append((*row, f"`{ENVIRONMENT_PREFIX}{name.upper()}`") if environment else row)
    head = ("setting", "default", "allowed", "what it is")
    return _table((*head, "environment") if environment else head, rows)


def _definitions(
    definitions: Mapping[str, ConfigDefinition], restart: frozenset[str], accepted: frozenset[str]
) -> str:
    rows = []
    for name, each in sorted(definitions.items()):
        if each.unsupported:
            continue
        effect = "restart" if name in restart else "none" if name in accepted else "at once"
        default = f"`{each.default}`" if each.default else f"`{each.fallback}`"
        rows.append((f"`{name}`", default, _allowed(each), effect, each.documentation))
    return _table(("name", "default", "allowed", "takes effect", "what it is"), rows)


def _allowed(each: ConfigDefinition) -> str:
    if each.choices:
        return " or ".join(f"`{choice}`" for choice in each.choices)
    if each.kind.value != "integer":
        return f"a {each.kind.value}"
    if each.at_least:
        return f"`{each.at_least}` to `{each.at_most}`, at least {each.minimum}"
    unbounded = each.maximum in (INT32_MAX, INT64_MAX)
    return f"{each.minimum} or more" if unbounded else f"{each.minimum} to {each.maximum}"


def _clients(settings: tuple[Setting, ...]) -> str:
    rows = []
    for each in settings:
        allowed = " or ".join(f"`{choice}`" for choice in each.choices)
        if each.least is not None:
            unbounded = each.most in (None, INT32_MAX)
            allowed = f"{each.least} or more" if unbounded else f"{each.least} to {each.most}"
        default = "none" if each.default in (None, "") else f"`{each.default}`"
        if callable(each.default):
            default = "computed"
        rows.append((f"`{each.name}`", default, allowed, each.what))
    return _table(("name", "default", "allowed", "what it is"), rows)
