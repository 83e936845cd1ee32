"""Section I: isolation and transactions, on the machine with a log of transactions."""

import pytest

from sharemesh.domain.group_config import IsolationLevel
from sharemesh.domain.share_partition.effects import AcquiredRun
from sharemesh.domain.share_partition.events import AbortedTransaction, LogBatch
from sharemesh.domain.share_partition.rules.archive import aborted_batches, without
from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene

COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


def transactions(scene: Scene, *parts: tuple[int, int, bool]) -> None:
    for producer, records, commit in parts:
        scene.world.log.append(records, producer)
        scene.world.log.end_transaction(producer, commit=commit)


def ranges(*parts: tuple[int, int, int]) -> list[AcquiredRun]:
    return [AcquiredRun(*part) for part in parts]


@scenario("ISO-S02")
def test_aborted_batches_are_archived():
    """T15."""
    scene = Scene(isolation=COMMITTED)
    transactions(scene, (1, 9, True), (2, 9, False), (3, 9, True))
    got = scene.world.fetch(batch_size=1)
    assert got.count == 21
    assert got.acquired == [(0, 8, 1), (9, 9, 1), (19, 19, 1), (20, 28, 1), (29, 29, 1)]
    assert len(scene.machine.cached_batches()) == 6
    assert scene.states(10, 18) == "10-18 ARC(1)"
    assert scene.entry(10) == "B 10-18 ARC(1)"
    assert scene.dcc == 9


@scenario("ISO-S03")
def test_aborted_offsets_are_archived():
    scene = Scene(isolation=COMMITTED)
    transactions(scene, (1, 2, True), (2, 2, False), (3, 2, True))
    got = scene.world.fetch()
    assert got.count == 7
    assert got.acquired == [(0, 2, 1), (5, 8, 1)]
    assert scene.states(3, 4) == "3-4 ARC(1)"
    assert scene.dcc == 2


def marker(offset: int, producer: int) -> LogBatch:
    return LogBatch(
        offset, offset, producer, is_transactional=True, is_control=True, is_abort_marker=True
    )


def data(first: int, last: int, producer: int) -> LogBatch:
    return LogBatch(first, last, producer, is_transactional=True)


@scenario("ISO-S04")
def test_which_batches_are_aborted():
    one = aborted_batches([data(0, 9, 1), marker(10, 1)], [AbortedTransaction(1, 0)])
    assert one == [(0, 9)]
    log = []
    for offset in (0, 2, 4):
        log += [data(offset, offset, 1), marker(offset + 1, 1)]
    three = aborted_batches(log, [AbortedTransaction(1, offset) for offset in (0, 2, 4)])
    assert three == [(0, 0), (2, 2), (4, 4)]


@scenario("ISO-S06")
def test_another_producers_batch_is_not_aborted():
    assert aborted_batches([data(0, 9, 2)], [AbortedTransaction(1, 0)]) == []


@scenario("ISO-S07")
def test_ranges_without_what_is_filtered():
    assert without(ranges((1, 5, 1), (10, 15, 2), (20, 25, 1)), [(2, 4), (12, 14)]) == tuple(
        ranges((1, 1, 1), (5, 5, 1), (10, 11, 2), (15, 15, 2), (20, 25, 1))
    )
    assert without(
        ranges((1, 4, 3), (5, 8, 3), (9, 30, 2), (31, 40, 3)), [(5, 25), (31, 35)]
    ) == tuple(ranges((1, 4, 3), (26, 30, 2), (36, 40, 3)))
    assert without(ranges((0, 19, 1)), [(8, 8), (18, 18)]) == tuple(
        ranges((0, 7, 1), (9, 17, 1), (19, 19, 1))
    )
    unchanged = ranges((3, 7, 1), (9, 9, 4))
    assert without(unchanged, []) == tuple(unchanged)


def consume(scene: Scene, kind: str, *, markers: str = "GAP") -> list[int]:
    """Poll once: acknowledge records with ``kind``, markers as gaps; return records' offsets."""
    delivered = []
    log = scene.world.log
    controls = {b.base_offset for b in log.batches if b.is_control}
    for first, last, _ in scene.world.fetch(max_records=500).acquired:
        for offset in range(first, last + 1):
            if offset in controls:
                assert scene.ack(f"{offset} {markers}") == "NONE"
            else:
                delivered.append(offset)
                assert scene.ack(f"{offset} {kind}") == "NONE"
    return delivered


@scenario("ISO-S08")
@pytest.mark.parametrize("level", [COMMITTED, UNCOMMITTED])
def test_ten_transactions_every_fifth_aborted(level):
    scene = Scene(isolation=level)
    transactions(scene, *((1, 1, k % 5 != 0) for k in range(1, 11)))
    messages = [offset // 2 + 1 for offset in consume(scene, "ACCEPT")]
    expected = [1, 2, 3, 4, 6, 7, 8, 9] if level is COMMITTED else list(range(1, 11))
    assert messages == expected
    assert consume(scene, "ACCEPT") == []


@scenario("ISO-S09")
def test_changing_from_uncommitted_to_committed():
    scene = Scene(isolation=UNCOMMITTED)
    transactions(scene, (1, 1, True), (1, 1, False))
    assert consume(scene, "ACCEPT") == [0, 2]
    transactions(scene, (1, 1, True), (1, 1, False))
    assert consume(scene, "RELEASE") == [4, 6]
    scene.configure(isolation_level=COMMITTED)
    transactions(scene, (1, 1, True), (1, 1, False), (1, 1, False), (1, 1, True))
    delivered = consume(scene, "ACCEPT")
    while more := consume(scene, "ACCEPT"):
        delivered += more
    assert [offset // 2 + 1 for offset in delivered] == [3, 5, 8]


@scenario("ISO-S10")
@pytest.mark.parametrize(
    ("third", "expected"), [("RELEASE", [3, 5, 6, 7, 8]), ("REJECT", [5, 6, 7, 8])]
)
def test_changing_from_committed_to_uncommitted(third, expected):
    scene = Scene(isolation=COMMITTED)
    transactions(scene, (1, 1, True))
    assert consume(scene, "ACCEPT") == [0]
    transactions(scene, (1, 1, False))
    assert consume(scene, "ACCEPT") == []  # the marker at 3 was acknowledged as a gap
    assert scene.last_write.endswith("3 4 1")
    transactions(scene, (1, 1, True))
    assert consume(scene, third) == [4]
    transactions(scene, (1, 1, False))
    before = len(scene.writes)
    scene.world.log.start = 0
    got = scene.world.fetch(fetch_offset=6)
    assert got.acquired == [(7, 7, 1)]
    assert scene.ack("7 GAP") == "NONE"
    assert len(scene.writes) == before + 1
    scene.configure(isolation_level=UNCOMMITTED)
    transactions(scene, (1, 1, True), (1, 1, False), (1, 1, False), (1, 1, True))
    delivered = consume(scene, "ACCEPT")
    while more := consume(scene, "ACCEPT"):
        delivered += more
    messages = [offset // 2 + 1 for offset in delivered]
    assert sorted(messages) == expected
    if third == "REJECT":
        assert messages == expected


@scenario("ISO-S11")
def test_markers_are_not_redelivered():
    scene = Scene()
    log = scene.world.log
    log.append(1, 1)
    log.append(1)
    log.end_transaction(1, commit=True)
    log.append(1, 2)
    log.append(1)
    log.end_transaction(2, commit=False)
    assert consume(scene, "ACCEPT") == [0, 1, 3, 4]
    scene.tick()
    assert scene.world.fetch().acquired == []
    assert scene.at == (6, 6, 6)
