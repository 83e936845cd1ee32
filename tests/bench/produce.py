"""Records confirmed after fsync, against the disk and the transport alone."""

import asyncio
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import uvloop

from sharemesh import methods
from tests.bench.figures import Figure, alternate, write
from tests.bench.mesh import ROOT, batch, caller, mesh, produce_request

BATCH = 500
REQUESTS = 128
FEW, MANY = 4, 256
OUTSTANDING = 2  # requests on their way to each of few partitions


async def produce(address, partitions):
    """Return confirmed records per second; a constant number of requests is on its way."""
    client = caller()
    one = batch(BATCH, 1024)
    numbers = iter(range(max(REQUESTS, partitions)))
    total = 0

    async def worker():
        nonlocal total
        for number in numbers:
            request = produce_request(number % partitions, one)
            response = await client.call(methods.PRODUCE, request, to=address)
            assert response.partitions[0].error_code in (0, 6), response
            total += BATCH

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(FEW * OUTSTANDING)))
    seconds = time.perf_counter() - started
    await client.close()
    return total / seconds


def bare_disk():
    """Return records per second of append and fdatasync, one thread and file a partition."""
    one = batch(BATCH, 1024)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:

        def append(number):
            descriptor = os.open(Path(directory) / str(number), os.O_WRONLY | os.O_CREAT)
            for _ in range(REQUESTS // FEW):
                os.write(descriptor, one)
                os.fdatasync(descriptor)
            os.close(descriptor)

        threads = [threading.Thread(target=append, args=(n,)) for n in range(FEW)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return BATCH * REQUESTS / (time.perf_counter() - started)


def figures():
    """Return the figures of produce."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        with mesh(FEW) as (leader, other):
            few = alternate(
                lambda: min(bare_disk(), runner.run(produce(other.address, FEW))),
                lambda: runner.run(produce(leader.address, FEW)),
            )
        with mesh(MANY) as (leader, _):
            many = alternate(
                lambda: runner.run(produce(leader.address, FEW)),
                lambda: runner.run(produce(leader.address, MANY)),
            )
    return [
        Figure(
            "produce.batch500",
            few.measured,
            "records/s",
            few.baseline,
            few.ratio,
            0.40,
            goal=0.7,
        ),
        Figure(
            "produce.partitions256",
            many.measured,
            "records/s",
            many.baseline,
            many.ratio,
            goal=0.5,
        ),
    ]


def main():
    """Measure, write build/bench/produce.json, return the exit code."""
    return write("produce", figures())


if __name__ == "__main__":
    sys.exit(main())
