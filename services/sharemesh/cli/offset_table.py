"""Where a group stands in each partition, as rows for people and for programs."""

from collections.abc import Mapping
from typing import Any

from sharemesh.cli.formatting import utc
from sharemesh.cli.session import CommandSession
from sharemesh.client.admin_results import GroupOffset
from sharemesh.client.errors import SharemeshError

_COLUMNS = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "start_offset": "START-OFFSET",
    "lag": "LAG",
    "leader_epoch": "LEADER-EPOCH",
    "archived_text": "ARCHIVED",
    "since_text": "COUNTED-SINCE",
}
_WORDS = {"DELIVERY_LIMIT": "by the delivery limit", "REJECT": "rejected", "GAP": "gaps"}


def offset_rows(offsets: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """Return one row a partition, for programs."""
    return [_row(where, found) for where, found in sorted(offsets.items())]


def show_offsets(session: CommandSession, offsets: Mapping[Any, Any]) -> None:
    """Print the rows; what is archived is counted from COUNTED-SINCE on (ARC-4)."""
    rows = offset_rows(offsets)
    if not session.as_json:
        for row in rows:
            since_ms = row["archived_since_ms"]
            row["archived_text"] = _archived_text(row["archived"])
            row["since_text"] = "-" if since_ms is None else utc(since_ms)
    session.show(rows, _COLUMNS, empty="no offsets yet")


def _row(where: Any, found: object) -> dict[str, Any]:  # noqa: ANN401
    known = found if isinstance(found, GroupOffset) else None
    return {
        "topic": where.topic,
        "partition": where.partition,
        "start_offset": known.start_offset if known else None,
        "lag": known.lag if known and known.lag >= 0 else None,
        "leader_epoch": known.leader_epoch if known else None,
        "archived": known.archived if known else None,
        "archived_since_ms": known.archived_since_ms if known else None,
        "error": str(found) if isinstance(found, SharemeshError) else None,
    }


def _archived_text(archived: Mapping[str, int] | None) -> str:
    """Return how many in all, and by what: ``7 (5 by the delivery limit, 2 rejected)``."""
    if archived is None:
        return "-"
    parts = [
        f"{count} {_WORDS.get(cause, cause.lower().replace('_', ' '))}"
        for cause, count in archived.items()
    ]
    total = sum(archived.values())
    return f"{total} ({', '.join(parts)})" if parts else "0"
