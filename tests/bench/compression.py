"""`make bench PART=compression`: what a codec costs and saves, with the text of this repository.

A record passes two transports (producer to leader, leader to consumer), each of which is a bare
stream here. A codec pays on one machine if it costs less processor time than those bytes that it
takes off both; what it saves a slow network is its size ratio.
"""

import asyncio
import sys
import time
from functools import partial
from itertools import islice

import uvloop

from sharemesh.codec.client_batches import BatchWriter
from sharemesh.codec.record_set import raw_records
from tests.bench.consume_stream import moved
from tests.bench.coordinators_group import cpu_s
from tests.bench.figures import ROUNDS, Figure, write
from tests.bench.mesh import ROOT, Node

CODECS = ("none", "lz4", "zstd", "snappy", "gzip")
BATCH_BYTES = 64 * 1024
TEXT_BYTES = 2 * 1024 * 1024
MESSAGES = 1_000
"""Of 64 KiB each, over the bare stream."""


def lines():
    """Return lines of prose and of code, in the order of the files' names: one record each."""
    files = [*sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("services/**/*.py"))]
    found, size = [], 0
    for path in islice(files, 0, None, 3):
        found += [line for line in path.read_bytes().splitlines() if line]
        size += path.stat().st_size
        if size >= TEXT_BYTES:
            break
    return found


def batches(records, codec):
    """Return the records in batches, as a producer makes them."""
    made, writer = [], BatchWriter(codec, BATCH_BYTES)
    for record in records:
        if not writer.append(1, None, record, ()):
            made.append(writer.finish(None))
            writer = BatchWriter(codec, BATCH_BYTES)
            writer.append(1, None, record, ())
    return [*made, writer.finish(None)]


def least(job):
    """Return the least processor time of some rounds, and what the job made."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        made = job()
        times.append(time.process_time() - began)
    return min(times), made


def codec_figures(records):
    """Return by codec: ms of processor time to write and read a MB, and the size ratio."""
    megabytes = sum(map(len, records)) / 1e6
    plain_s = plain_bytes = 0.0
    found = {}
    for codec in CODECS:
        write_s, made = least(partial(batches, records, codec))
        read_s, _ = least(lambda made=made: [raw_records(each) for each in made])
        size = sum(map(len, made))
        if codec == "none":
            plain_s, plain_bytes = write_s + read_s, size
        ms = (write_s + read_s - plain_s) * 1e3 / megabytes
        found[codec] = ms, plain_bytes / size
    return found


def transport_ms():
    """Return ms of processor time of both sides for a MB on a bare stream."""
    node = Node("bare")
    try:
        rounds = []
        for _ in range(ROUNDS):
            before = time.process_time() + cpu_s(node.process.pid)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(moved(node.address, BATCH_BYTES, MESSAGES, MESSAGES))
            rounds.append(time.process_time() + cpu_s(node.process.pid) - before)
    finally:
        node.stop()
    return min(rounds) * 1e3 / (MESSAGES * BATCH_BYTES / 1e6)


def figures():
    """Return the figures of the part."""
    moved_ms = 2 * transport_ms()
    rows = [Figure("compression.both_transports", moved_ms, "ms a MB")]
    for codec, (ms, ratio) in codec_figures(lines()).items():
        if codec == "none":
            continue
        saved_ms = moved_ms * (1 - 1 / ratio)
        rows.append(Figure(f"compression.{codec}.size_ratio", ratio, "ratio"))
        rows.append(Figure(f"compression.{codec}.of_saved", ms, "ms a MB", saved_ms, ms / saved_ms))
    return rows


def main():
    """Measure, write build/bench/compression.json, return the exit code."""
    return write("compression", figures())


if __name__ == "__main__":
    sys.exit(main())
