"""Real processes on real files: killed, or stopped while another takes over, then resumed."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.ports.shard_log import LogRecord

pytestmark = pytest.mark.integration

WRITER = """
import asyncio, sys
from pathlib import Path
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.ports.shard_log import FencedError, LogRecord

async def main():
    disk = SystemDisk(Path(sys.argv[1]))
    logs = EmbeddedShardLogs(disk, SystemClock(), LogSettings(segment_bytes=20_000))
    log = await logs.open("state", 0, 1)
    number = 0
    while True:
        records = [LogRecord(b"old", b"%d" % (number + n)) for n in range(number % 7 + 1)]
        number += len(records)
        last = log.append(records)
        try:
            await log.committed(last + 1)
        except FencedError:
            print("fenced", flush=True)
            return
        print(last, flush=True)

asyncio.run(main())
"""


def start_writer(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE, text=True
    )


async def take_over_and_read(root: Path, epoch: int, *keys: bytes) -> list[LogRecord]:
    disk = SystemDisk(root)
    log = await EmbeddedShardLogs(disk, SystemClock(), LogSettings()).open("state", 0, epoch)
    for key in keys:
        last = log.append([LogRecord(key, b"-")])
        await log.committed(last + 1)
    found = [record async for chunk in log.replay() for record in chunk]
    await log.close()
    disk.close()
    return found


def check(found: list[LogRecord], confirmed: int) -> None:
    assert [record.offset for record in found] == list(range(len(found)))
    old = [record for record in found if record.key == b"old"]
    assert [int(record.value) for record in old] == list(range(len(old)))
    assert len(old) > confirmed


@pytest.mark.parametrize("seed", range(3))
async def test_a_killed_writer_loses_nothing_that_it_confirmed(tmp_path, seed):
    print(f"seed {seed}")
    lines = random.Random(seed).randint(20, 400)
    writer = start_writer(tmp_path)
    confirmed = [int(writer.stdout.readline()) for _ in range(lines)]
    writer.kill()
    rest, _ = writer.communicate(timeout=30)
    confirmed += [int(line) for line in rest.splitlines()]
    check(await take_over_and_read(tmp_path, 2), confirmed[-1])


@pytest.mark.parametrize("seed", range(3))
async def test_a_stopped_writer_confirms_nothing_after_another_took_over(tmp_path, seed):
    print(f"seed {seed}")
    lines = random.Random(seed).randint(20, 400)
    writer = start_writer(tmp_path)
    confirmed = [int(writer.stdout.readline()) for _ in range(lines)]
    writer.send_signal(signal.SIGSTOP)
    try:
        before = await take_over_and_read(tmp_path, 2, b"new", b"new")
    finally:
        writer.send_signal(signal.SIGCONT)
    rest, _ = writer.communicate(timeout=30)
    *late, end = rest.splitlines()
    assert end == "fenced"
    confirmed += [int(line) for line in late]  # confirmed before the stop, or with a look before it
    found = await take_over_and_read(tmp_path, 3)
    assert [(r.key, r.value) for r in found] == [(r.key, r.value) for r in before]
    check(found[:-2], confirmed[-1])
    assert [record.key for record in found[-2:]] == [b"new", b"new"]
