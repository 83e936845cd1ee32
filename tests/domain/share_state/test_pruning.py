"""The redundant-offset rule (spec PRN)."""

import pytest

from sharemesh.domain.share_state.pruning import RedundantOffsets


def run(steps):
    offsets = RedundantOffsets()
    seen = []
    for key, offset, deleted in steps:
        (offsets.deleted if deleted else offsets.snapshot)(key, offset)
        seen.append(offsets.offset)
    return seen


def steps(text):
    parsed = []
    for step in text.split():
        key, offset = step.split("@")
        parsed.append((key, int(offset.rstrip("†")), offset.endswith("†")))
    return parsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("K1@10 K1@11 K1@15", [10, 11, 15]),
        ("K1@10 K4@11 K2@13", [10, 10, 10]),
        ("K1@10† K4@11† K2@13†", [10, 11, 13]),
        ("K1@10 K2@11 K3@15 K2@16 K1@17", [10, 10, 10, 10, 15]),
        ("K1@10 K2@11 K3@15† K2@16 K1@17", [10, 10, 10, 10, 16]),
        ("K1@10 K2@15 K1@25†", [10, 10, 15]),
        (
            "K1@10 K2@11 K3@15 K2@18 K3@20 K2@22 K3@25 K2@27 K3@28 K1@30",
            [10] * 9 + [27],
        ),
        ("K1@10 K2@11 K3@15 K2@18 K3@20† K2@22 K2@27† K1@30", [10] * 7 + [30]),
    ],
)
def test_everything_below_the_oldest_latest_snapshot_is_redundant(text, expected):
    assert run(steps(text)) == expected


def test_nothing_seen_or_offset_0_reports_none():
    offsets = RedundantOffsets()
    assert offsets.offset is None
    offsets.snapshot("K1", 0)
    assert offsets.offset is None


def test_the_redundant_offset_never_goes_back():
    offsets = RedundantOffsets()
    offsets.deleted("K1", 10)
    offsets.snapshot("K2", 20)
    assert offsets.offset == 20
    offsets.snapshot("K3", 30)
    assert offsets.offset == 20
