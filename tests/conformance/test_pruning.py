"""Section O: the redundant offset (PRN)."""

from sharemesh.domain.share_state.pruning import RedundantOffsets
from tests.conformance.scenario import scenario


def run(text):
    """Play ``K1@10 K3@20†`` (snapshots, deletes) and return what is reported after each."""
    offsets = RedundantOffsets()
    reported = []
    for step in text.split():
        key, offset = step.split("@")
        if offset.endswith("†"):
            offsets.deleted(key, int(offset[:-1]))
        else:
            offsets.snapshot(key, int(offset))
        reported.append(offsets.offset)
    return reported


@scenario("PRN-S02")
def test_one_key():
    assert run("K1@10 K1@11 K1@15") == [10, 11, 15]


@scenario("PRN-S03")
def test_new_keys_and_deletes():
    assert run("K1@10 K4@11 K2@13") == [10, 10, 10]
    assert run("K1@10† K4@11† K2@13†") == [10, 11, 13]


@scenario("PRN-S04")
def test_the_oldest_snapshot_decides():
    assert run("K1@10 K2@11 K3@15 K2@16 K1@17")[-1] == 15
    assert run("K1@10 K2@11 K3@15† K2@16 K1@17")[-1] == 16


@scenario("PRN-S06")
def test_a_delete_counts_once():
    assert run("K1@10 K2@15") == [10, 10]
    assert run("K1@10 K2@15 K1@25†") == [10, 10, 15]
    # K2 alone remains: its next snapshot alone decides.
    assert run("K1@10 K2@15 K1@25† K2@30")[-1] == 30


@scenario("PRN-S07")
def test_a_key_that_is_seldom_written_holds_it():
    written = "K1@10 K2@11 K3@15 K2@18 K3@20 K2@22 K3@25 K2@27 K3@28 K1@30"
    assert run(written) == [10] * 9 + [27]
    with_deletes = "K1@10 K2@11 K3@15 K2@18 K3@20† K2@22 K2@27† K1@30"
    assert run(with_deletes) == [10] * 7 + [30]
