"""The Spark job as pods, over the state log of this run."""

import time

from tests.e2e.environment import CHARTS
from tests.e2e.kube import until

JOB_TIMEOUT_S = 240


def test_the_spark_job_runs_as_pods_and_commits_a_generation(mesh, timings):
    storage = mesh.storage("main")
    values = {
        "nameOverride": "main",
        "cluster.enabled": "false",
        "cluster.storage.type": storage["type"],
        "cluster.storage.node": storage["node"],
        "cluster.storage.hostPath": storage["hostPath"],
        "tests.enabled": "false",
        "spark.enabled": "true",
        "spark.suspend": "true",
        "spark.executors": "1",
        "spark.executorMemory": "512m",
        "spark.driverMemory": "512m",
        "spark.image.repository": mesh.images.spark.rpartition(":")[0],
        "spark.image.tag": mesh.images.tag,
        "spark.conf.spark\\.kubernetes\\.executor\\.request\\.cores": "100m",
    }
    words = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    mesh.kube.helm("upgrade", "--install", "analytics", str(CHARTS / "sharemesh-cluster"), *words)
    started = time.monotonic()
    mesh.kube("create", "job", "compact-once", "--from=cronjob/main-spark")
    executors: set[str] = set()

    def over() -> str | None:
        executors.update(mesh.kube.names("pods", "spark-role=executor"))
        status = mesh.kube.get("job", "compact-once")["status"]
        for condition in status.get("conditions", ()):
            if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
                return str(condition["type"])
        return None

    ended = until("the Spark job ends", over, timeout_s=JOB_TIMEOUT_S)
    said = mesh.kube("logs", "job/compact-once", "--tail=60")
    assert ended == "Complete", said
    assert executors, "no executor pod was seen"
    timings.note("Spark job with one executor pod", time.monotonic() - started)
    assert "commit" in said
    generations = mesh.as_root("look", f"ls /host/{mesh.namespace}/main/generations")
    assert generations.strip()
    mesh.kube.helm("uninstall", "analytics", "--wait")
