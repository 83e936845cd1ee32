"""Damaging logs on disk: torn tails behind the committed end, flipped bits below it."""

import random
import struct
from dataclasses import dataclass
from pathlib import Path

from sharemesh.cli.log_files import OpenedLog, open_log
from sharemesh.codec.batch_frame import (
    CRC_START,
    HEADER_BYTES,
    Frame,
    frame_size,
    place_frame,
    walk_frames,
)
from sharemesh.codec.record_set import build_batch
from sharemesh.codec.segment import SEGMENT_HEADER_BYTES

REGIONS = ("segment header", "header", "payload", "crc", "tail")
CRC_AT = CRC_START - 4
TORN = ("a cut batch", "a cut header", "zeros", "noise")


@dataclass(frozen=True, slots=True)
class Flip:
    """One flipped bit: what must be reported; `offset` is where the damaged batch begins."""

    region: str
    file: Path
    at: int
    position: int
    offset: int
    next_positions: tuple[int, ...]  # of the batch behind it: really, and as its header says now

    def told_in(self, message: str) -> bool:
        """Whether a message names the file and where the damage begins.

        A header whose length or span is wrong may show only at the batch behind it.
        """
        return self.file.name in message and any(
            f"position {position}," in message for position in (self.position, *self.next_positions)
        )


def opened(directory: Path) -> OpenedLog:
    log = open_log(directory)
    assert log is not None, f"nothing was ever committed in {directory}"
    return log


def committed_frames(log: OpenedLog) -> list[tuple[Path, Frame]]:
    """Return every committed batch, markers included, with its file."""
    found = []
    for part in log.parts:
        file = log.directory / part.name.file_name
        data = file.read_bytes()
        limit = part.end_position if part.end_position is not None else len(data)
        walk = walk_frames(
            data[SEGMENT_HEADER_BYTES:limit],
            start=SEGMENT_HEADER_BYTES,
            limit=limit,
            base_offset=part.base_offset,
            leader_epoch=part.name.epoch,
            check_crc=True,
        )
        assert walk.problem is None, f"{file} is damaged already: {walk.problem}"
        found += [(file, frame) for frame in walk.frames if frame.base_offset < part.end_offset]
    return found


def flip(directory: Path, region: str, rng: random.Random) -> Flip:
    """Flip one bit below the committed end; return what must be found."""
    frames = committed_frames(opened(directory))
    assert frames, f"nothing is committed in {directory}"
    file, frame = frames[-1] if region == "tail" else rng.choice(frames)
    begin, size = frame.position, frame.size_bytes
    where = {
        "segment header": (0, SEGMENT_HEADER_BYTES),
        "header": (begin, begin + HEADER_BYTES),
        "payload": (begin + HEADER_BYTES, begin + size),
        "crc": (begin + CRC_AT, begin + CRC_AT + 4),
        "tail": (begin + size - 1, begin + size),
    }[region]
    at = rng.randrange(*where)
    with file.open("r+b") as opened_file:
        opened_file.seek(at)
        byte = opened_file.read(1)[0]
        opened_file.seek(at)
        opened_file.write(bytes([byte ^ 1 << rng.randrange(8)]))
        opened_file.seek(begin)
        told_size = frame_size(opened_file.read(HEADER_BYTES))
    if region == "segment header":
        first = next(each for other, each in frames if other == file)
        return Flip(region, file, at, 0, first.base_offset, (0,))
    return Flip(region, file, at, begin, frame.base_offset, (begin + size, begin + told_size))


def tear(directory: Path, kind: str, rng: random.Random) -> int:
    """Leave behind the newest segment what a crash in the middle of a write leaves."""
    log = opened(directory)
    newest = log.chain.newest
    assert newest is not None
    file = directory / newest.name.file_name
    batch = build_batch([(b"torn", b"torn" * 50, ())], timestamp_ms=1)
    place_frame(
        batch, _end_of(file, newest.header.base_offset, newest.name.epoch), newest.name.epoch
    )
    data = {
        "a cut batch": bytes(batch[: rng.randrange(HEADER_BYTES, len(batch))]),
        "a cut header": bytes(batch[: rng.randrange(1, HEADER_BYTES)]),
        "zeros": bytes(rng.randrange(1, 10_000)),
        "noise": struct.pack(">q", rng.getrandbits(62)) + rng.randbytes(rng.randrange(1, 5_000)),
    }[kind]
    with file.open("ab") as opened_file:
        opened_file.write(data)
    return len(data)


def _end_of(file: Path, base_offset: int, epoch: int) -> int:
    data = file.read_bytes()
    walk = walk_frames(
        data[SEGMENT_HEADER_BYTES:],
        start=SEGMENT_HEADER_BYTES,
        limit=len(data),
        base_offset=base_offset,
        leader_epoch=epoch,
        check_crc=True,
    )
    return walk.end_offset
