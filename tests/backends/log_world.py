"""A log on a bad disk: owners that commit, a reader beside them, and what must hold at the end."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from sharemesh.backends.embedded.owned.owned_log import OwnedLog
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.batch_frame import place_frame
from sharemesh.codec.control_batches import encode_log_start
from sharemesh.codec.log_chain import (
    StartOverError,
    part_records,
    readable_parts,
    resolve_chain,
    starting_offset,
)
from sharemesh.codec.record_set import build_batch
from sharemesh.codec.segment import (
    SEGMENT_HEADER_BYTES,
    CommittedEnd,
    SegmentFormatError,
    decode_committed_end,
    decode_segment_header,
    end_epochs,
    end_name,
    segment_names,
)
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.testing.memory_disk import MemoryDisk

PATH = "state/00000"
DEADLINE_S = 20.0
SMALL = LogSettings(segment_bytes=400)
LARGE = LogSettings()


def batch(epoch: int, base_offset: int, *values: str) -> bytes:
    """Return one placed batch with a record for each value."""
    made = build_batch([(b"k", value.encode(), ()) for value in values], timestamp_ms=1)
    place_frame(made, base_offset, epoch)
    return bytes(made)


class Owner:
    """An owner that commits batches one after the other and notes what was confirmed."""

    def __init__(self, disk: MemoryDisk, epoch: int, settings: LogSettings = LARGE) -> None:
        self.disk = disk
        self.epoch = epoch
        self.settings = settings
        self.log: OwnedLog | None = None
        self.confirmed: dict[int, str] = {}
        self.log_start = 0
        self.seen_committed: list[int] = []

    def take_over(self) -> None:
        self.log = OwnedLog(self.disk, PATH, self.epoch, self.settings)
        if self.log.corruption is not None:
            raise self.log.corruption

    def commit(self, *values: str) -> None:
        log = self.log
        assert log is not None
        base = log.committed_end_offset
        end = base + len(values)
        log.commit([batch(self.epoch, base, *values)], end, log.log_start_offset)
        self.confirmed.update(zip(range(base, end), values, strict=True))

    def delete_before(self, offset: int) -> None:
        log = self.log
        assert log is not None
        end = log.committed_end_offset
        marker = encode_log_start(offset, at_offset=end, leader_epoch=self.epoch, timestamp_ms=1)
        log.commit([marker], end, offset)
        self.log_start = log.log_start_offset
        log.prune()

    def work(self, *batches: tuple[str, ...]) -> None:
        """Take over and commit; a fenced or failed owner stops."""
        try:
            self.take_over()
            for values in batches:
                self.commit(*values)
        except (FencedError, LogFailedError):
            return


def read_committed_end(disk: MemoryDisk) -> CommittedEnd | None:
    """Step 1 of a reader (codec.log_chain)."""
    epochs = end_epochs(disk.list(PATH))
    if not epochs:
        return None
    return decode_committed_end(disk.read(f"{PATH}/{end_name(epochs[-1])}"))


def read_log(disk: MemoryDisk, *, tries: int = 50) -> tuple[int, int, dict[int, str]]:
    """Read as Spark does: (log start, end, offset -> value), starting over as needed."""
    for _ in range(tries):
        try:
            return read_log_once(disk)
        except (StartOverError, FileNotFoundError):
            continue
    raise AssertionError("the reader never came to an end")


def read_log_once(disk: MemoryDisk) -> tuple[int, int, dict[int, str]]:
    end = read_committed_end(disk)
    if end is None:
        return 0, 0, {}
    headers = {}
    for name in segment_names(disk.list(PATH)):
        data = disk.read(f"{PATH}/{name.file_name}", 0, SEGMENT_HEADER_BYTES)
        try:
            headers[name] = decode_segment_header(data, name)
        except SegmentFormatError as error:
            headers[name] = error
    chain = resolve_chain(headers)
    start = starting_offset(chain, end)
    found: dict[int, str] = {}
    for part in readable_parts(chain, end):
        size = None if part.end_position is None else part.end_position - part.start_position
        data = disk.read(f"{PATH}/{part.name.file_name}", part.start_position, size)
        for records in part_records(part, data):
            for _, value, offset, _ in records:
                if start <= offset < end.end_offset:
                    found[offset] = (value or b"").decode()
    return start, end.end_offset, found


def settle(disk: MemoryDisk, epoch: int, *owners: Owner) -> dict[int, str]:
    """A last owner takes over; return what the log holds, after checking what must hold.

    Whatever was confirmed is there, at its offset, unless the log start passed it; there is no
    gap; no value appears twice.
    """
    last = Owner(disk, epoch)
    last.take_over()
    last.commit(f"last-{epoch}")
    start, end, found = read_log(disk)
    assert sorted(found) == list(range(start, end)), "the log has a gap"
    assert len(set(found.values())) == len(found), f"a batch is there twice: {found}"
    for owner in (*owners, last):
        assert start >= owner.log_start
        for offset, value in owner.confirmed.items():
            assert offset < start or found.get(offset) == value, (
                f"offset {offset}: epoch {owner.epoch} confirmed {value!r}, found "
                f"{found.get(offset)!r}"
            )
    return found


class KilledError(Exception):
    """The process of a stepped job is gone."""


class Stepped:
    """Runs a job in a thread that stops before each disk operation until it is let go on.

    The first step brings it to its first operation, each further one past an operation.
    """

    def __init__(self, disk: MemoryDisk, job: Callable[[], object]) -> None:
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._free = False
        self._killed = False
        self.done = False
        self.error: BaseException | None = None
        self._job = job
        self._thread = threading.Thread(target=self._run, daemon=True)
        _hook(disk)[self._thread] = self
        self._thread.start()

    def step(self, count: int = 1) -> None:
        """Go on by ``count`` operations, or fewer if the job ends."""
        for _ in range(count):
            if self.done:
                return
            self._go.release()
            assert self._stopped.acquire(timeout=DEADLINE_S), "a stepped job hangs"

    def finish(self) -> None:
        """Let the job run to its end; raise what it raised."""
        self._free = True
        self._go.release()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "a stepped job hangs"
        if self.error is not None:
            raise self.error

    def kill(self) -> None:
        """End the job where it stands, as a power cut does."""
        self._killed = True
        self._go.release()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "a stepped job hangs"

    def reached(self) -> None:
        """Stop here (called by the disk in the job's thread)."""
        if self._killed:
            raise KilledError
        if self._free:
            return
        self._stopped.release()
        if not self._go.acquire(timeout=DEADLINE_S):
            raise TimeoutError("the test forgot a stepped job")
        if self._killed:
            raise KilledError

    def _run(self) -> None:
        self._go.acquire(timeout=DEADLINE_S)
        try:
            self._job()
        except BaseException as error:  # handed to finish()
            self.error = error
        self.done = True
        self._stopped.release()


def _hook(disk: MemoryDisk) -> dict[threading.Thread, Stepped]:
    actors = getattr(disk, "actors", None)
    if actors is None:
        actors = {}
        disk.actors = actors  # type: ignore[attr-defined]

        def before(operation: str, path: str) -> None:
            actor = actors.get(threading.current_thread())
            if actor is not None:
                actor.reached()

        disk.before = before
    return actors


def count_steps(make: Callable[[MemoryDisk], Callable[[], object]]) -> int:
    """Return how many disk operations a job makes when it runs alone."""
    disk = MemoryDisk(random.Random(0))
    job = make(disk)
    count = 0

    def before(operation: str, path: str) -> None:
        nonlocal count
        count += 1

    disk.before = before
    job()
    return count
