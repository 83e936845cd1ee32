"""The operator's own first process: it revokes the leases of an operator that died."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from sharemesh_operator.operator_process import Standing

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

TTL_MS = 60_000  # nobody waits for that


def child_of(pid):
    """Return the pid of the only child of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def flags(land, identity):
    settings = land.settings(identity)
    return [
        f"--namespace={settings.namespace}",
        f"--identity={identity}",
        f"--etcd-endpoints={settings.etcd_endpoints[0]}",
        f"--image={settings.image}",
        f"--kubeconfig={settings.kubeconfig}",
        f"--session-ttl-ms={TTL_MS}",
        f"--secrets-directory={settings.secrets_directory}",
        "--listen-host=127.0.0.1",
        "--health-port=0",
        "--metrics-port=0",
        "--log-format=json",
    ]


async def guarded(land, identity):
    command = [sys.executable, "-m", "sharemesh_operator", "--guard", *flags(land, identity)]
    return await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)


async def said(process, word):
    """Read what it says until a word comes."""
    async with asyncio.timeout(40):
        while line := await process.stderr.readline():
            if word.encode() in line:
                return
    raise AssertionError(f"it ended without saying {word!r}")


async def test_another_replica_follows_a_killed_one_at_once_and_leads_its_clusters(land):
    first = await guarded(land, "op-0")
    try:
        await said(first, "elected")
        await land.cluster()
        await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
        second = await land.start_operator("op-1")
        await land.until(lambda: asyncio.sleep(0, second.standing() is Standing.STANDING_BY))
        began = asyncio.get_running_loop().time()
        os.kill(child_of(first.pid), signal.SIGKILL)
        await land.leading(second)
        took_s = asyncio.get_running_loop().time() - began
        print(f"operator killed: another one leads after {took_s:.2f} s")
        assert await first.wait() == 128 + signal.SIGKILL
        # Its lease as the cluster's placement controller is revoked, too.
        await land.topic()
        await land.condition("ShareTopic", "orders", "True", "InSync")
        waited_s = asyncio.get_running_loop().time() - began
        assert waited_s < TTL_MS / 1_000 / 2
    finally:
        if first.returncode is None:
            first.kill()
            await first.wait()


async def test_a_guard_forwards_sigterm_and_ends_like_its_child(land):
    process = await guarded(land, "op-0")
    await said(process, "elected")
    process.terminate()
    async with asyncio.timeout(20):
        _, err = await process.communicate()
    assert process.returncode == 0, err.decode()


async def test_a_guard_hands_on_that_settings_are_wrong(land):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sharemesh_operator", "--guard", "--kubeconfig=/nowhere"),
        *("--namespace=a", "--identity=b", "--etcd-endpoints=127.0.0.1:1", "--image=c"),
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(20):
        _, err = await process.communicate()
    assert process.returncode == 2
    assert b"/nowhere" in err
