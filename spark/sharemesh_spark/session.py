"""Starts Spark: `local[*]` by default, whatever `spark-submit` set otherwise."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from sharemesh_spark.java import find_java_home

_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
"""To glibc: keep what NumPy's arrays were freed, as fresh pages cost a fifth of a compaction."""


def start(
    name: str, *, work: Path, cores: int | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a running session that keeps its files under ``work``.

    Who is started by ``spark-submit``, or with ``SPARK_MASTER``, gets the master from there.

    Args:
        name: Shown in logs.
        work: A directory for scratch files.
        cores: Local worker threads; None means all of the machine.
        settings: ``spark.*`` settings that go before those made here, the master among them.
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
    builder = (
        SparkSession.builder.appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")  # commands tell it themselves
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(local / "warehouse"))
        .config("spark.local.dir", str(local))
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={local}")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
    )
    for variable in _MEMORY:
        builder = builder.config(f"spark.executorEnv.{variable}", os.environ[variable])
    if is_local:
        builder = builder.master(f"local[{cores or '*'}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
