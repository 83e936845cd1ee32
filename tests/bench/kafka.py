"""Sharemesh on Kafka: one real broker on this machine, its own clients beside ours in the same run.

``KAFKA_BENCH_ROUNDS`` and ``KAFKA_BENCH_RECORDS`` make it shorter.
"""

import os
import sys
import tempfile
from pathlib import Path

from tests.bench import kafka_clients, kafka_logs, kafka_looks
from tests.bench.figures import ROUNDS, write
from tests.cli.local_up import local_up
from tests.kafka.jars import KafkaMissingError
from tests.kafka.real_broker import real_brokers

ROOT = Path(__file__).parents[2]
ROUNDS_OF_CLIENTS = int(os.environ.get("KAFKA_BENCH_ROUNDS", str(ROUNDS)))
SETTINGS = {"offsets.topic.num.partitions": 4, "share.coordinator.state.topic.num.partitions": 4}


def main():
    """Measure, print, write; 1 when a floor is missed."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        directory = Path(name)
        try:
            with real_brokers(directory, settings=SETTINGS, jvm=("-Xmx1g", "-Xms256m")) as brokers:
                figures = kafka_logs.figures(brokers.bootstrap, brokers.pid(1))
                figures += kafka_looks.figures(directory / "etcd")
                options = ("--kafka", brokers.bootstrap, "--kafka-single-replica", "true")
                with local_up(directory / "up", *options) as up:
                    figures += kafka_clients.figures(brokers, up, ROUNDS_OF_CLIENTS)
        except KafkaMissingError as error:
            print(f"PART=kafka cannot run: {error}")
            return 1
    return write("kafka", figures)


if __name__ == "__main__":
    sys.exit(main())
