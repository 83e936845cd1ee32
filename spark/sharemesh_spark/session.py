"""Starts Spark: `local[*]` by default, whatever `spark-submit` set otherwise."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from sharemesh_spark.java import find_java_home

_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
"""To glibc: keep what NumPy's arrays were freed, as fresh pages cost a fifth of a compaction."""


SPARK_LOG = "spark.log"
"""Under the scratch files: what Spark says itself."""


class SparkNotStartedError(Exception):
    """Spark's Java machine ended before it could be used; the message names its log."""


def start(
    name: str,
    *,
    work: Path,
    cores: int | None = None,
    settings: Mapping[str, str] | None = None,
    verbose: bool = True,
) -> SparkSession:
    """Return a running session that keeps its files under ``work``.

    Who is started by ``spark-submit``, or with ``SPARK_MASTER``, gets the master from there.

    Args:
        name: Shown in logs.
        work: A directory for scratch files.
        cores: Local worker threads; None means all of the machine.
        settings: ``spark.*`` settings that go before those made here, the master among them.
        verbose: Let Spark's own lines through; else they go to ``SPARK_LOG`` in ``work``. What
            ``spark-submit`` started writes where it wants.

    Raises:
        SparkNotStartedError: Its Java machine ended at once.
    """
    settings = settings or {}
    outside = "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_MASTER" in os.environ
    for variable, value in _MEMORY.items():
        os.environ.setdefault(variable, value)
    is_local = not outside and "spark.master" not in settings
    os.environ["JAVA_HOME"] = str(find_java_home(work))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    local = work / "spark"
    local.mkdir(parents=True, exist_ok=True)
    made = {
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",  # commands tell it themselves
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(local / "warehouse"),
        "spark.local.dir": str(local),
        "spark.sql.shuffle.partitions": "8",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={local}",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    made |= {f"spark.executorEnv.{variable}": os.environ[variable] for variable in _MEMORY}
    if is_local:
        made["spark.master"] = f"local[{cores or '*'}]"
    made |= settings
    if not verbose:
        _start_quietly(made, work / SPARK_LOG)
    builder = SparkSession.builder
    for key, value in made.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _start_quietly(settings: Mapping[str, str], log: Path) -> None:
    """Start the JVM with its output in a file: its warnings do not concern a user."""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # it runs already
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with log.open("wb") as file:
        try:
            gateway = launch_gateway(conf, popen_kwargs={"stderr": file})
        except Exception as error:
            raise SparkNotStartedError(f"Spark did not start ({error}); see {log}") from error
    SparkContext(conf=conf, gateway=gateway)
