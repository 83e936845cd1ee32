"""What makes pods in tests: the StatefulSet controller's and the kubelet's part, in one loop.

Pods are real role processes of the product, built from the pod template's own command line and
configuration file, listening on this machine.
"""

import asyncio
import contextlib
import copy
import hashlib
import json

from sharemesh.serve.role_process import RoleProcess
from sharemesh.serve.settings.sources import add_serve_flags, read_file, serve_settings
from sharemesh.serve.supervise.child_protocol import Reporter

REVISION = "controller-revision-hash"
KEYS_URL = "https://kubernetes.default.svc/openid/v1/jwks"


class Node:
    """Keeps the pods of the stand-in's StatefulSets as they are wanted."""

    def __init__(self, api, directory):
        self._api = api
        self._store = api.store
        self._directory = directory
        self._task = None
        self._again = False
        self.processes = {}
        self.stopped = []
        """Names of pods in the order in which they were stopped."""
        self.unready = set()
        """Names of pods that are made but never become ready."""

    async def __aenter__(self):
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(
            *(process.stop(drain=False) for process in self.processes.values() if process)
        )

    def _resource(self, plural):
        return next(each for each in self._store.resources.values() if each.plural == plural)

    async def _run(self):
        seen = -1
        while True:
            if not self._again:
                async with self._store.changed:
                    await self._store.changed.wait_for(
                        lambda before=seen: self._store.revision > before
                    )
            self._again = False
            seen = self._store.revision
            for each in self._store.select(self._resource("statefulsets"), None, {}):
                await self._keep(each)
            await self._bury()

    async def _keep(self, wanted):
        meta, spec = wanted["metadata"], wanted["spec"]
        text = json.dumps(spec["template"], sort_keys=True).encode()
        revision = hashlib.sha256(text).hexdigest()[:10]
        pods = self._resource("pods")
        namespace = meta["namespace"]
        names = [f"{meta['name']}-{number}" for number in range(spec["replicas"])]
        there = {
            pod["metadata"]["name"]
            for pod in self._store.select(pods, namespace, spec["selector"]["matchLabels"])
        }
        for name in names:
            if name not in there:
                await self._make(wanted, name, revision)
        for name in there - set(names):
            await self._store.delete(pods, namespace, name)
        status = {
            "observedGeneration": meta["generation"],
            "updateRevision": revision,
            "replicas": len(names),
        }
        if wanted.get("status") != status:
            await self._store.merge_patch(
                self._resource("statefulsets"),
                namespace,
                meta["name"],
                {"status": status},
                sub="status",
            )

    async def _make(self, wanted, name, revision):
        if name in self.processes:
            return  # the one before it is still leaving
        template = copy.deepcopy(wanted["spec"]["template"])
        meta = wanted["metadata"]
        template["metadata"]["labels"] |= {
            REVISION: revision,
            "statefulset.kubernetes.io/pod-name": name,
        }
        template["metadata"]["name"] = name
        template["metadata"]["ownerReferences"] = [
            {"kind": "StatefulSet", "name": meta["name"], "uid": meta["uid"]}
        ]
        pods = self._resource("pods")
        pod = await self._store.create(pods, meta["namespace"], template)
        self.processes[name] = None
        if name in self.unready:
            return
        process = self.processes[name] = RoleProcess(self._settings(pod), Reporter(None))
        await process.start()
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        with contextlib.suppress(Exception):
            await self._store.merge_patch(
                pods, meta["namespace"], name, {"status": ready}, sub="status"
            )

    async def _bury(self):
        """Stop the processes of pods that are gone, as the kubelet does on SIGTERM."""
        pods = {
            pod["metadata"]["name"] for pod in self._store.select(self._resource("pods"), None, {})
        }
        for name in [name for name in self.processes if name not in pods]:
            process = self.processes[name]
            if process is not None:
                await process.stop(drain=True)
            del self.processes[name]
            self.stopped.append(name)
            self._again = True

    def _settings(self, pod):
        import argparse

        meta = pod["metadata"]
        cluster = meta["labels"]["sharemesh.io/cluster"]
        maps = self._resource("configmaps")
        config = self._store.get(maps, meta["namespace"], f"{cluster}-config")
        file = self._directory / f"{meta['name']}.yaml"
        text = config["data"]["sharemesh.yaml"]
        for volume in pod["spec"]["volumes"]:  # the kubelet's part: Secrets are files
            if volume["name"] == "tls":
                mounted = self._directory / "secrets" / volume["secret"]["secretName"]
                text = text.replace("/etc/sharemesh/tls", str(mounted))
            if volume["name"] == "tokens":  # and what it projects; the issuer's keys are a file
                text = text.replace("/etc/sharemesh/tokens", str(self._directory / "tokens"))
                text = text.replace(KEYS_URL, str(self._directory / "tokens" / "keys.json"))
        file.write_text(text)
        arguments = [
            text.replace("$(POD_NAME)", meta["name"])
            for text in arguments_of(pod)
            if not text.startswith(("--config", "--advertised", "--kafka-listener"))
        ]
        parser = argparse.ArgumentParser()
        add_serve_flags(parser)
        here = [
            f"--config={file}",
            f"--data-directory={self._directory / 'data'}",
            "--listen-host=127.0.0.1",
            "--listen-port=0",
            "--health-port=-1",
            "--metrics-port=-1",
            "--drain-timeout-ms=2000",
        ]
        if any(text.startswith("--kafka-listener-port") for text in arguments_of(pod)):
            here.append("--kafka-listener-port=0")
        flags = vars(parser.parse_args([*arguments, *here]))
        given = {name: value for name, value in flags.items() if value is not None}
        return serve_settings(given, {}, read_file(file))


def arguments_of(pod):
    """Return the arguments of a role's process."""
    return pod["spec"]["containers"][0]["args"]
