"""Section O: the combiner (CMB)."""

import re

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.state_batch import StateBatch, combine
from tests.conformance.scenario import scenario

ROW = re.compile(r"(\d+)-(\d+)\((\d),(\d)\)")


def batches(text):
    """Read ``100-110(0,1) 121-130(0,1)``: first-last(state,count)."""
    found = [tuple(map(int, row)) for row in ROW.findall(text)]
    return [StateBatch(f, last, DeliveryState(s), c) for f, last, s, c in found]


def check(stored, new, expected, start=-1):
    assert combine(batches(stored), batches(new), start_offset=start) == tuple(batches(expected))


@scenario("CMB-S01")
def test_corner_cases():
    check("100-130(0,1)", "", "120-130(0,1)", start=120)
    check("", "100-130(0,1)", "100-130(0,1)")
    check("100-130(0,1)", "", "100-130(0,1)")
    check("", "", "")
    one = batches("100-130(0,1)")
    assert combine(None, one, start_offset=-1) == tuple(one)
    assert combine(one, None, start_offset=-1) == tuple(one)
    assert combine(None, None, start_offset=-1) == ()


@scenario("CMB-S02")
def test_equal_ones_merge_and_others_stay_apart():
    check("100-110(0,1)", "100-110(0,1) 120-130(2,1)", "100-110(0,1) 120-130(2,1)")


@scenario("CMB-S03")
def test_uncovered_offsets_stay_uncovered():
    check("0-5(2,1)", "0-5(2,1) 11-15(0,1)", "0-5(2,1) 11-15(0,1)")


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ("100-110", "100-110"),
        ("100-105", "100-110"),
        ("100-115", "100-115"),
        ("105-108", "100-110"),
        ("105-110", "100-110"),
        ("105-115", "100-115"),
        ("111-115", "100-115"),
    ],
)
@scenario("CMB-S04")
def test_one_state_merges(new, expected):
    """CMB-5."""
    check("100-110(0,1)", f"{new}(0,1)", f"{expected}(0,1)")


@pytest.mark.parametrize(
    ("stored", "new", "expected"),
    [
        ("(0,1)", "(0,3)", "(0,3)"),
        ("(0,3)", "(0,1)", "(0,3)"),
        ("(0,1)", "(2,1)", "(2,1)"),
        ("(2,1)", "(0,1)", "(2,1)"),
    ],
)
@scenario("CMB-S05")
def test_on_the_same_range_the_higher_count_then_the_higher_state_wins(stored, new, expected):
    """CMB-6, CMB-12."""
    check(f"100-110{stored}", f"100-110{new}", f"100-110{expected}")


@scenario("CMB-S06")
def test_at_the_head():
    check("100-110(0,1)", "100-105(0,2)", "100-105(0,2) 106-110(0,1)")
    check("100-110(0,3)", "100-105(0,1)", "100-110(0,3)")


@scenario("CMB-S07")
def test_longer():
    check("100-110(0,1)", "100-115(0,2)", "100-115(0,2)")
    check("100-110(0,3)", "100-115(0,1)", "100-110(0,3) 111-115(0,1)")


@scenario("CMB-S08")
def test_inside():
    check("100-115(0,1)", "105-110(1,1)", "100-104(0,1) 105-110(1,1) 111-115(0,1)")
    check("100-115(1,1)", "105-110(0,1)", "100-115(1,1)")


@scenario("CMB-S09")
def test_at_the_tail():
    check("100-110(0,1)", "105-110(0,2)", "100-104(0,1) 105-110(0,2)")
    check("100-110(0,2)", "105-110(0,1)", "100-110(0,2)")


@scenario("CMB-S10")
def test_overlap_beyond_the_end():
    check("100-110(0,1)", "105-115(0,2)", "100-104(0,1) 105-115(0,2)")
    check("100-110(0,2)", "105-115(0,1)", "100-110(0,2) 111-115(0,1)")


@scenario("CMB-S11")
def test_overlap_within_the_new_list():
    check(
        "100-110(0,1) 121-130(0,1)",
        "111-119(2,2) 116-123(2,2)",
        "100-110(0,1) 111-123(2,2) 124-130(0,1)",
    )


@scenario("CMB-S12")
def test_three_new_ones_over_each_other():
    check(
        "100-110(0,1)",
        "101-105(1,2) 101-115(2,2) 101-120(3,2)",
        "100-100(0,1) 101-120(3,2)",
    )


@scenario("CMB-S13")
def test_clipped_at_the_start_offset():
    check(
        "100-110(0,1) 121-130(0,1)",
        "111-119(2,2) 116-123(2,2)",
        "120-123(2,2) 124-130(0,1)",
        start=120,
    )


@scenario("CMB-S14")
def test_mixed():
    check(
        "111-120(0,1)",
        "111-113(0,2) 114-114(2,1) 115-119(0,2)",
        "111-113(0,2) 114-114(2,1) 115-119(0,2) 120-120(0,1)",
    )
