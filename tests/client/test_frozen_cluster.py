"""Time-outs hold with every process of the cluster frozen."""

import json
import os
import signal
import time

import pytest

from sharemesh.client import connect
from sharemesh.client.errors import RequestTimedOutError
from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

OVERRUN_MS = 100


def took_ms(call) -> tuple[float, object]:
    began = time.monotonic()
    result = call()
    return (time.monotonic() - began) * 1_000, result


def test_commit_sync_and_close_do_not_overrun(tmp_path):
    with local_up(tmp_path / "data") as up:
        cluster = connect(up.bootstrap)
        with cluster.admin() as admin, cluster.producer() as producer:
            admin.create_topic("t", 1)
            admin.alter_group_configs("g", {"share.auto.offset.reset": "earliest"})
            producer.send("t", b"x").result(20)
        consumer = cluster.share_consumer("g", ["t"], share_acknowledgement_mode="explicit")
        deadline = time.monotonic() + 20
        while not (records := consumer.poll(500)):
            assert time.monotonic() < deadline
        running = json.loads((up.directory / "run" / "cluster.json").read_text())
        pids = [each["pid"] for each in running["processes"] if each["role"] != "etcd"]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            consumer.acknowledge(records[0])
            spent_ms, result = took_ms(lambda: consumer.commit_sync(500))
            assert spent_ms < 500 + OVERRUN_MS
            (error,) = result.values()
            assert isinstance(error, RequestTimedOutError)
            spent_ms, _ = took_ms(lambda: consumer.close(500))
            assert spent_ms < 500 + OVERRUN_MS
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
