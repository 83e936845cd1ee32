"""kubectl and helm, as the tests call them; every wait has a deadline and says what it saw last."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.e2e.reader import ReadError, path_of, reader

Document = dict[str, Any]
Found = TypeVar("Found")
POLL_S = 0.25
CALL_TIMEOUT_S = 60
CACHE = Path(os.environ.get("SHAREMESH_CACHE") or Path.home() / ".cache" / "sharemesh")


class CommandError(AssertionError):
    """A command ended with another code than 0."""


def program(name: str) -> str:
    """Return the path of a program: on PATH, or built by deploy/machine."""
    built = CACHE / "bin" / name
    found = shutil.which(name) or (str(built) if built.exists() else None)
    assert found, f"{name} is neither on PATH nor in {built.parent}: install it"
    return found


def run(*command: str, text: str | None = None, timeout_s: float = CALL_TIMEOUT_S) -> str:
    """Run a command to its end; return its stdout."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode:
        words = " ".join(command)
        raise CommandError(f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def until(what: str, look: Callable[[], Found | None], *, timeout_s: float = 60) -> Found:
    """Look again and again until there is something; a look may fail meanwhile."""
    deadline = time.monotonic() + timeout_s
    last: object = None
    while True:
        try:
            found = look()
            if found is not None and found is not False:
                return found
            last = found
        except CommandError as error:
            last = error
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}; last: {last}"
        time.sleep(POLL_S)


class Kube:
    """One namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._kubectl = program("kubectl")

    def __call__(self, *words: str, text: str | None = None, timeout_s: float = 60) -> str:
        """Run kubectl in the namespace."""
        return run(self._kubectl, "-n", self.namespace, *words, text=text, timeout_s=timeout_s)

    def answer(self, *words: str) -> str:
        """Return the first word that kubectl prints, whatever its exit code says."""
        command = [self._kubectl, "-n", self.namespace, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False
        )
        return next(iter(done.stdout.split()), done.stderr)

    def complaint(self, *words: str, text: str | None = None) -> str:
        """Run kubectl; return what it complains of, or nothing if it did what it was told."""
        try:
            self(*words, text=text)
        except CommandError as error:
            return str(error)
        return ""

    def helm(self, *words: str, timeout_s: float = 180) -> str:
        """Run helm in the namespace."""
        return run(program("helm"), "-n", self.namespace, *words, timeout_s=timeout_s)

    def apply(self, *documents: Document) -> None:
        """Apply objects."""
        self("apply", "-f", "-", text=yaml.safe_dump_all(documents))

    def refused(self, document: Document) -> str:
        """Apply an object that the API server has to refuse; return its words."""
        refusal = self.complaint("apply", "-f", "-", text=yaml.safe_dump(document))
        assert refusal, f"the API server took {document}"
        return refusal

    def get(self, kind: str, name: str) -> Document:
        """Return an object; CommandError if there is none."""
        return self._read(path_of(kind, self.namespace, name=name), "get", kind, name)

    def objects(self, kind: str, selector: str = "") -> list[Document]:
        """Return the objects of a kind."""
        words = ["-l", selector] if selector else []
        path = path_of(kind, self.namespace, selector=selector)
        found: list[Document] = self._read(path, "get", kind, *words)["items"]
        return found

    def _read(self, path: str | None, *words: str) -> Document:
        if path is None:
            found: Document = json.loads(self(*words, "-o", "json"))
            return found
        try:
            return reader(self._kubectl).document(path)
        except ReadError as error:
            raise CommandError(str(error)) from error

    def names(self, kind: str, selector: str = "") -> list[str]:
        """Return the names of the objects of a kind."""
        return [found["metadata"]["name"] for found in self.objects(kind, selector)]

    def patch(self, kind: str, name: str, change: Document) -> None:
        """Merge a change into an object."""
        self("patch", kind, name, "--type=merge", "-p", json.dumps(change))

    def delete(self, kind: str, *names: str, wait: bool = False, timeout_s: float = 60) -> None:
        """Delete objects."""
        wait_words = [f"--wait={str(wait).lower()}", f"--timeout={timeout_s:.0f}s"]
        self("delete", kind, *names, "--ignore-not-found", *wait_words, timeout_s=timeout_s + 10)

    def condition(self, kind: str, name: str, wanted: str) -> Document | None:
        """Return a condition of the object's present generation, or None."""
        found = self.get(kind, name)
        generation = found["metadata"]["generation"]
        for condition in found.get("status", {}).get("conditions", ()):
            current = condition.get("observedGeneration") == generation
            if condition["type"] == wanted and current:
                return condition  # type: ignore[no-any-return]
        return None

    def wait_for_condition(
        self,
        kind: str,
        name: str,
        wanted: str = "Ready",
        *,
        status: str = "True",
        reason: str = "",
        timeout_s: float = 90,
    ) -> Document:
        """Wait until a condition of the present generation is as wanted; return it."""
        last: Document | None = None

        def look() -> Document | None:
            nonlocal last
            last = self.condition(kind, name, wanted)
            good = last and last["status"] == status and reason in ("", last["reason"])
            return last if good else None

        try:
            return until(f"{kind}/{name} {wanted}={status} {reason}", look, timeout_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; condition: {last}") from error

    def gone(self, kind: str, name: str, *, timeout_s: float = 60) -> None:
        """Wait until an object is not there any more."""

        def look() -> bool | None:
            try:
                self.get(kind, name)
            except CommandError as error:
                return "NotFound" in str(error) or None
            return None

        until(f"{kind}/{name} is gone", look, timeout_s=timeout_s)

    def exec(self, pod: str, *command: str, timeout_s: float = 60) -> str:
        """Run a command in a pod."""
        return self("exec", pod, "--", *command, timeout_s=timeout_s)

    def logs(self, pod: str, *words: str) -> str:
        """Return what a pod wrote."""
        if words:
            return self("logs", pod, *words)
        try:
            return reader(self._kubectl).text(f"api/v1/namespaces/{self.namespace}/pods/{pod}/log")
        except ReadError as error:
            raise CommandError(str(error)) from error

    def ready_pods(self, selector: str) -> list[str]:
        """Return the names of pods that are ready and not being deleted."""
        return [
            pod["metadata"]["name"]
            for pod in self.objects("pods", selector)
            if "deletionTimestamp" not in pod["metadata"] and is_ready(pod)
        ]


def is_ready(pod: Document) -> bool:
    """Return whether a pod's Ready condition holds."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def restarts(pod: Document) -> int:
    """Return how often a pod's containers were started again."""
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))
