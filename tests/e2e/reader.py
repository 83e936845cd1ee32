"""Reads from the API server through one `kubectl proxy`: a look needs no process of its own."""

import atexit
import functools
import http.client
import json
import os
import subprocess
import sys
from typing import Any
from urllib.parse import quote

from sharemesh.serve.supervise import parent_death_signal

CUSTOM = "apis/sharemesh.io/v1alpha1"
# By the words that kubectl takes; what is not here is kubectl's business.
PATHS = {
    "pod": "api/v1/namespaces/{ns}/pods",
    "pods": "api/v1/namespaces/{ns}/pods",
    "services": "api/v1/namespaces/{ns}/services",
    "configmaps": "api/v1/namespaces/{ns}/configmaps",
    "pvc": "api/v1/namespaces/{ns}/persistentvolumeclaims",
    "node": "api/v1/nodes",
    "nodes": "api/v1/nodes",
    "deployment": "apis/apps/v1/namespaces/{ns}/deployments",
    "statefulsets": "apis/apps/v1/namespaces/{ns}/statefulsets",
    "job": "apis/batch/v1/namespaces/{ns}/jobs",
    "pdb": "apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
    "poddisruptionbudgets": "apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
    "crd": "apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    **{
        word: f"{CUSTOM}/namespaces/{{ns}}/{one}s"
        for one in ("sharecluster", "sharetopic", "sharegroup", "shareuser", "sharegroupoperation")
        for word in (one, f"{one}s")
    },
}
TIMEOUT_S = 60
OK = 200


class ReadError(Exception):
    """The API server did not give what was asked for; the message is its own."""


class Reader:
    """Owns the proxy."""

    def __init__(self, kubectl: str) -> None:
        command = [kubectl, "proxy", "--port=0"]
        self._process = subprocess.Popen(
            [sys.executable, parent_death_signal.__file__, str(os.getpid()), *command],
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.close)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert "127.0.0.1:" in said, f"kubectl proxy did not start: {said!r}"
        self._port = int(said.rpartition(":")[2])
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """End the proxy."""
        if self._connection is not None:
            self._connection.close()
        self._process.kill()
        self._process.communicate()

    def text(self, path: str) -> str:
        """Return what a GET answers.

        Raises:
            ReadError: It is not there, or the API server is not.
        """
        try:
            status, body = self._ask(path)
        except (OSError, http.client.HTTPException):
            self._connection = None  # an old connection that was closed meanwhile
            try:
                status, body = self._ask(path)
            except (OSError, http.client.HTTPException) as error:
                self._connection = None
                raise ReadError(f"GET {path}: {error!r}") from error
        if status != OK:
            raise ReadError(f"GET {path}: {status} {body}")
        return body

    def document(self, path: str) -> dict[str, Any]:
        """Return an object or a list."""
        found: dict[str, Any] = json.loads(self.text(path))
        return found

    def _ask(self, path: str) -> tuple[int, str]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                "127.0.0.1", self._port, timeout=TIMEOUT_S
            )
        self._connection.request("GET", f"/{path}")
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode()


@functools.cache
def reader(kubectl: str) -> Reader:
    """Return the process's one reader."""
    return Reader(kubectl)


def path_of(kind: str, namespace: str, *, name: str = "", selector: str = "") -> str | None:
    """Return where an object, or the objects that a selector fits, are read; None: by kubectl."""
    if kind not in PATHS:
        return None
    path = PATHS[kind].format(ns=namespace)
    if name:
        return f"{path}/{name}"
    return f"{path}?labelSelector={quote(selector)}" if selector else path
