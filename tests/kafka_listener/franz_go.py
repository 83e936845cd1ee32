"""franz-go's own tests of share groups, at any brokers.

    python -m tests.kafka_listener.franz_go [--records N] [--times N] [--chaos] [--kafka]

runs them at the listeners of three share leaders, or with ``--kafka`` at Apache Kafka. With
``--chaos`` its clients' connections end by themselves after half a second to one and a half
(KGO_TEST_CHAOS=1).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.go_tools import BUILD, environment, run
from tests.kafka_listener.share_consumer_cases import apache_kafka, sharemesh

MODULE = "github.com/twmb/franz-go@v1.22.2"
TESTS = "^TestShareGroup|^TestAuditShare|^TestBuildAckRanges|^TestDrainPurged"
PROGRAM_S = 300
TOLD = 6_000
ALL = 9


def program() -> Path:
    """Build franz-go's tests, which its module has, if they are not there; return the program."""
    made = BUILD / "franz-go" / "kgo.test"
    if not made.exists():
        variables = {**environment(), "GOFLAGS": "-mod=mod"}
        told = subprocess.run(
            ["go", "mod", "download", "-json", MODULE],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            env=variables,
        )
        source = made.parent / "source"
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(json.loads(told.stdout)["Dir"], source)
        for each in [source, *source.rglob("*")]:
            each.chmod(each.stat().st_mode | 0o200)
        package = ["go", "-C", str(source / "pkg" / "kgo"), "test", "-c", "-o", str(made), "."]
        run(package, variables)
    return made


def results(
    bootstrap: str, records: int, *, chaos: bool = False, timeout_s: int = PROGRAM_S
) -> tuple[dict[str, str], str]:
    """Run the tests; return what became of each, by name, and all that they said."""
    built = program()
    done = subprocess.run(
        [
            *("nice", str(built), "-test.run", TESTS, "-test.v"),
            *("-test.timeout", f"{timeout_s}s", "-test.parallel", "4"),
        ],
        capture_output=True,
        text=True,
        timeout=timeout_s + 20,
        check=False,
        cwd=built.parent / "source" / "pkg" / "kgo",
        env={
            **os.environ,
            "KGO_SEEDS": bootstrap,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(records),
            "KGO_LOG_LEVEL": "none",
            **({"KGO_TEST_CHAOS": "1"} if chaos else {}),
        },
    )
    found = re.findall(r"^--- (\w+): (\w+)", done.stdout, re.MULTILINE)
    said = done.stdout + done.stderr
    assert found, said[-TOLD:]
    return {name: result for result, name in found}, said


def failed(found: dict[str, str]) -> list[str]:
    """Return the names of tests that did not pass, or never ran."""
    missing = [""] * (ALL - len(found))
    return [name for name, result in found.items() if result != "PASS"] + missing


def main() -> int:
    """Run them, and say what became of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_listener.franz_go")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--chaos", action="store_true")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--timeout", type=int, default=PROGRAM_S)
    args = parser.parse_args()
    broken = 0
    for number in range(args.times):
        with tempfile.TemporaryDirectory() as made:
            began = time.monotonic()
            directory = Path(made) / "data"
            with (apache_kafka if args.kafka else sharemesh)(directory, {}) as where:
                found, said = results(
                    where.consumers, args.records, chaos=args.chaos, timeout_s=args.timeout
                )
        missed = failed(found)
        broken += bool(missed)
        lines = re.findall(r"^\s*--- .*|^\s+\w+_test\.go:\d+: .*", said, re.MULTILINE)
        print("\n".join(lines))
        print(
            f"run {number + 1}: {ALL - len(missed)} of {ALL} pass, {args.records} records, "
            f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.0f}; not: {missed}",
            flush=True,
        )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
