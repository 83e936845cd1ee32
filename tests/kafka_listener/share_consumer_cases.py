"""Cases of Kafka's own share consumer (in Java), run at one broker after the other.

    python -m tests.kafka_listener.share_consumer_cases [KEPT_DIRECTORY]

runs them at Apache Kafka and at Sharemesh and writes docs/reference/share-consumer-cases.md.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cli.local_up import local_up
from tests.kafka.jars import HERE as KAFKA
from tests.kafka.jars import ROOT, jars, java
from tests.kafka.real_broker import QUICK, real_brokers

PROGRAM = Path(__file__).parent / "cases" / "ShareConsumerCases.java"
PAGE = ROOT / "docs" / "reference" / "share-consumer-cases.md"
BEGIN, END = "<!-- share consumer cases -->", "<!-- end of share consumer cases -->"
CASES_AT_ONCE = 4
PROGRAM_S = 500

ORDINARY = {
    "group.share.record.lock.duration.ms": "15000",
    "group.share.max.partition.max.record.locks": "10000",
    "group.share.partition.max.record.locks": "10000",
}
"""Settings of the cluster under which most cases run, as in Kafka's own test."""

SPECIAL: Mapping[int, Mapping[str, str]] = {
    62: {**ORDINARY, "group.share.max.size": "3"},
    63: {**ORDINARY, "group.share.max.size": "1", "group.share.max.share.sessions": "1"},
}
"""Cases that want other settings of the whole cluster."""

TRANSACTIONAL = (17, 64, 66, 67, 68)
"""Cases with transactions: these have a coordinator in Apache Kafka, to which producers go.

Sharemesh then keeps its records there (`--kafka`), and consumers come to its listener.
"""

READ_AT_START = "group.share.max.share.sessions"
SHARE_LEADERS = 3

LEFT_OUT = {
    "57, 83, 84": "a broker is shut down: the faults of this repository do that",
}


@dataclass(frozen=True)
class Outcome:
    """What became of one case; ``why`` is empty if it passed."""

    number: int
    name: str
    why: str
    took_ms: int


@dataclass(frozen=True)
class Bootstrap:
    """Where clients begin: consumers, and who produces, which is the same place mostly."""

    consumers: str
    producers: str = ""


def run_cases(bootstrap: Bootstrap, numbers: Sequence[int] = ()) -> dict[int, Outcome]:
    """Run cases (none given: all that want nothing special) at a running broker."""
    command = (
        *(java(), "-Xmx512m", "-XX:+UseSerialGC"),
        f"-Dlog4j2.configurationFile=file:{KAFKA / 'log4j2.properties'}",
        *("-cp", f"{jars()}/*", str(PROGRAM)),
        *(bootstrap.consumers, bootstrap.producers or bootstrap.consumers, str(CASES_AT_ONCE)),
        *map(str, numbers),
    )
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
        env={**os.environ, "KAFKA_LOG_LEVEL": "OFF"},
    )
    lines = [json.loads(each) for each in done.stdout.splitlines() if each.startswith("{")]
    assert done.returncode == 0, f"{done.stdout[-2_000:]}{done.stderr[-2_000:]}"
    found = (Outcome(each["case"], each["name"], each["why"], each["ms"]) for each in lines)
    return {each.number: each for each in found}


@contextlib.contextmanager
def apache_kafka(directory: Path, settings: Mapping[str, str]) -> Iterator[Bootstrap]:
    """Yield the address of a broker."""
    with real_brokers(directory, settings={**QUICK, **settings}) as brokers:
        yield Bootstrap(brokers.bootstrap)


@contextlib.contextmanager
def sharemesh_on_kafka(directory: Path, settings: Mapping[str, str]) -> Iterator[Bootstrap]:
    """Yield the listeners' addresses of a cluster on a broker, and that of the broker."""
    with real_brokers(directory / "broker", settings=QUICK) as brokers:
        storage = ("--kafka", brokers.bootstrap, "--kafka-single-replica", "true")
        with sharemesh(directory / "mesh", settings, storage) as listeners:
            yield Bootstrap(listeners.consumers, brokers.bootstrap)


@contextlib.contextmanager
def sharemesh(
    directory: Path, settings: Mapping[str, str], storage: Sequence[str] = ()
) -> Iterator[Bootstrap]:
    """Yield the listeners' addresses of a cluster of real processes."""
    leaders = ("--share-leaders", str(SHARE_LEADERS), *storage)
    with local_up(directory, "--kafka-listener", "127.0.0.1:0", *leaders) as up:
        changes = [f"{name}={value}" for name, value in settings.items()]
        if changes:
            done = up.sharemesh("configs", "alter", "--cluster", *changes)
            assert done.returncode == 0, done.stderr
        if READ_AT_START in settings:
            for number in range(SHARE_LEADERS):
                who = (f"share-leader-{number}", "--data-directory", str(directory))
                done = up.sharemesh("up", "restart", *who)
                assert done.returncode == 0, done.stderr
        yield Bootstrap(up.kafka_bootstrap)


def outcomes(where, transactional, directory: Path) -> dict[int, Outcome]:
    """Return what becomes of every case at one of the two; those with transactions elsewhere."""
    with where(directory / "ordinary", ORDINARY) as bootstrap:
        found = run_cases(bootstrap)
    for number, settings in SPECIAL.items():
        with where(directory / f"case{number}", settings) as bootstrap:
            found |= run_cases(bootstrap, [number])
    with transactional(directory / "transactions", ORDINARY) as bootstrap:
        found |= run_cases(bootstrap, TRANSACTIONAL)
    return dict(sorted(found.items()))


def table(kafka: Mapping[int, Outcome], ours: Mapping[int, Outcome]) -> str:
    """Return the table of the page."""
    lines = ["| case | name | Apache Kafka 4.4.0 | Sharemesh |", "|---|---|---|---|"]
    for number, theirs in kafka.items():
        mine = ours[number]
        results = (_word(theirs), _word(mine))
        lines.append(f"| {number} | {theirs.name} | {results[0]} | {results[1]} |")
    left = [f"- {numbers}: {why}." for numbers, why in LEFT_OUT.items()]
    return "\n".join([*lines, "", "Left out:", "", *left])


def _word(outcome: Outcome) -> str:
    return "fails" if outcome.why else "passes"


def main() -> int:
    with tempfile.TemporaryDirectory() as made:
        directory = Path(sys.argv[1] if len(sys.argv) > 1 else made)
        ours = outcomes(sharemesh, sharemesh_on_kafka, directory / "sharemesh")
        kafka = outcomes(apache_kafka, apache_kafka, directory / "kafka")
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, behind = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(kafka, ours)}\n\n{END}{behind}")
    worse = [each for each in kafka if not kafka[each].why and ours[each].why]
    for number, theirs in kafka.items():
        if theirs.why or ours[number].why:
            print(f"{number}: Kafka: {theirs.why or 'passes'}; Sharemesh: {ours[number].why}")
    print(f"{len(kafka)} cases; passed by Kafka and not by Sharemesh: {worse or 'none'}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
