"""Starts Spark: `local[*]` by default, whatever `spark-submit` set otherwise."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from sharemesh_spark.java import find_java_home


def start(name: str, *, work: Path, cores: int | None = None) -> SparkSession:
    """Return a running session that keeps its files under ``work``.

    Args:
        name: Shown in logs.
        work: A directory for scratch files.
        cores: Local worker threads; None means all of the machine.
    """
    os.environ["JAVA_HOME"] = str(find_java_home(work))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    local = work / "spark"
    local.mkdir(parents=True, exist_ok=True)
    builder = (
        SparkSession.builder.appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(local / "warehouse"))
        .config("spark.local.dir", str(local))
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={local}")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
    )
    if "SPARK_MASTER" not in os.environ and "spark.master" not in os.environ:
        builder = builder.master(f"local[{cores or '*'}]")
    return builder.getOrCreate()
