"""`make demo`: the whole mesh on real records, with kills; exit 0 only if every check holds."""

import argparse
import asyncio
import shutil
import sys
from pathlib import Path
from time import perf_counter

from examples.demo.kafka_story import told_on_kafka
from examples.demo.story import Story
from rich.console import Console

from sharemesh.serve.exit_codes import StartError
from tests.kafka.jars import KafkaMissingError

DEFAULT_WORK = Path("build/demo")


def main() -> int:
    """Tell the story once."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo")
    parser.add_argument("--seed", type=int, default=1, help="moves the kills and the bad rows")
    parser.add_argument("--records", type=int, default=120_000, help="rows of the data set to use")
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK, help="where everything goes")
    parser.add_argument(
        "--engine",
        choices=("embedded", "kafka"),
        default="embedded",
        help="what keeps the logs: files of the mesh, or a real Apache Kafka started for it",
    )
    args = parser.parse_args()
    if args.records < 1_000:
        parser.error("--records must be at least 1000, so that the kills hit something")
    console = Console()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    started = perf_counter()
    try:
        if args.engine == "kafka":
            good = told_on_kafka(console, args.work, seed=args.seed, records=args.records)
        else:
            story = Story(console, args.work, seed=args.seed, records=args.records)
            good = asyncio.run(story.tell())
    except StartError as error:
        console.print(f"the cluster did not start: {error.message}", style="red")
        return 1
    except KafkaMissingError as error:
        console.print(f"Kafka cannot be run here: {error}", style="red")
        return 1
    console.print(
        f"seed {args.seed}, {perf_counter() - started:.0f} s; everything lies in {args.work}",
        highlight=False,
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
