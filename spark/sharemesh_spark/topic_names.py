"""Names of topics for people: the logs know ids only, a running cluster knows both."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sharemesh_spark.cluster_calls import ClusterAccess, NotAnsweredError, cluster_calls

RUN_FILE = "run/cluster.json"
"""Where `sharemesh up` leaves the addresses of the cluster."""


def topic_names(data: Path, access: ClusterAccess | None) -> dict[str, str]:
    """Return names by topic id; none if no cluster was named and that of the directory is silent.

    Raises:
        NotAnsweredError: The cluster that ``access`` names did not answer.
    """
    if access is not None:
        with cluster_calls(access) as calls:
            return calls.topic_names()
    try:
        addresses = json.loads((data / RUN_FILE).read_text(encoding="utf-8"))["bootstrap"]
        with cluster_calls(ClusterAccess(str(addresses[0]))) as calls:
            return calls.topic_names()
    except (OSError, ValueError, KeyError, TypeError, IndexError, NotAnsweredError):
        return {}


def named(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return rows with ``topic`` instead of ``topic_id``: the name where it is known."""
    return [
        {
            "topic" if key == "topic_id" else key: (
                names.get(value, value) if key == "topic_id" else value
            )
            for key, value in row.items()
        }
        for row in rows
    ]
