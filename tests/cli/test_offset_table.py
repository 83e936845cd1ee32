"""Where a group stands, for people and for programs."""

import io

from rich.console import Console

from sharemesh.cli.groups import offset_rows, show_offsets
from sharemesh.cli.session import CommandSession
from sharemesh.client.admin_results import GroupOffset, TopicPartition

WHERE = TopicPartition("orders", 0)
COUNTED = GroupOffset(
    7, 2, 3, {"REJECT": 2, "DELIVERY_LIMIT": 5, "LOG_START": 1}, 1_700_000_000_000
)


def shown(offsets):
    out = Console(file=io.StringIO(), width=400)
    show_offsets(CommandSession({}, as_json=False, timeout_ms=1, out=out, err=out), offsets)
    return out.file.getvalue()


def test_archived_records_are_told_by_reason_and_since_when():
    text = shown({WHERE: COUNTED})
    assert "8 (2 rejected, 5 by the delivery limit, 1 log start)" in text
    assert "2023-11-14T22:13:20.000Z" in text


def test_arc_5_what_is_not_known_is_no_zero():
    text = shown({WHERE: GroupOffset(7, 2, 3)})
    assert text.splitlines()[1].split()[-2:] == ["-", "-"]
    assert offset_rows({WHERE: GroupOffset(7, 2, 3)})[0]["archived"] is None


def test_programs_get_the_counts():
    row = offset_rows({WHERE: COUNTED})[0]
    assert (row["archived"]["REJECT"], row["archived_since_ms"]) == (2, 1_700_000_000_000)
