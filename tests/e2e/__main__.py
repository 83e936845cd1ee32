"""`make e2e`: the suite on a real Kubernetes.

With KUBECONFIG set, on that cluster: its nodes must have the images (docs/guides/kubernetes.md), or
SHAREMESH_E2E_LOAD names a command that takes an archive and loads it. Without KUBECONFIG it builds
and starts a control plane, a kubelet and a container runtime on this machine, loads the images,
and in the end takes all of it away again; what was built stays in the cache.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from sharemesh.serve.supervise import parent_death_signal
from tests.e2e.footprint import Footprint

ROOT = Path(__file__).parents[2]
MACHINE = ROOT / "deploy" / "machine"
CACHE = Path(os.environ.get("SHAREMESH_CACHE") or Path.home() / ".cache" / "sharemesh")
RUN = Path(os.environ.get("SHAREMESH_NODE_RUN") or CACHE / "run")
IMAGES = ROOT / "build" / "images"
REPORTS = ROOT / "build" / "e2e"
OWNER = "owner.pid"
STOP_LIMIT_S = 120
"""How long a part that was told to stop may clean up: on a cluster of others, the tests do."""
TAG, NEWER = "e2e", "e2e-newer"
PYTEST = ("-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "--durations=20")
TETHER = (parent_death_signal.__file__, str(os.getpid()))  # a worker does not outlive this process
WORKERS = ("0", "1")
NONE_SELECTED = 5  # of pytest
PASSED = re.compile(r"\b[1-9]\d* passed\b")
POLL_S = 0.2
TESTS = (
    *("-m", "cluster", "tests/e2e"),
    *(
        f"tests/operator/test_{name}.py"
        for name in ("api_contract", "storage_rules", "listener_rules")
    ),
)


def step(what: str, *command: str | Path, environment: dict[str, str] | None = None) -> int:
    """Run a command, and say how long it took; if this process is told to stop, so is that."""
    started = time.monotonic()
    print(f"\n== {what}", flush=True)
    words = [str(word) for word in command]
    with subprocess.Popen(words, cwd=ROOT, env=environment, start_new_session=True) as process:
        try:
            code = process.wait()
        except BaseException:
            stop(process)
            raise
    print(f"== {what}: {time.monotonic() - started:.0f} s, exit {code}", flush=True)
    return code


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a command and all that it started."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_LIMIT_S)


def told_to_stop(number: int, _: FrameType | None) -> None:
    """Leave by way of everything that is to be taken away; a second time is not heard."""
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def must(what: str, *command: str | Path) -> None:
    """Run a command that has to go well."""
    if code := step(what, *command):
        raise SystemExit(f"e2e: {what} failed with exit {code}")


def check_machine() -> None:
    """Say in one sentence what a cluster on this machine needs and has not."""
    if os.geteuid() != 0:
        raise SystemExit("e2e: without KUBECONFIG it needs root: it makes namespaces and a link")
    for name, where in (("kubectl", "https://kubernetes.io/docs/tasks/tools"), ("apt-get", "")):
        if shutil.which(name) is None:
            raise SystemExit(f"e2e: {name} is missing {where}")
    if not (CACHE / "bin" / ".built").exists() and shutil.which("go") is None:
        raise SystemExit("e2e: needs Go 1.24 or newer to build Kubernetes (https://go.dev/dl)")


def build_image(image: str, tag: str, *words: str) -> Path:
    """Build one image's archive."""
    must(f"image {image}:{tag}", sys.executable, "-m", "images", image, "--tag", tag, *words)
    return IMAGES / f"{image}-{tag}.tar"


def load(loader: list[str], image: str, tag: str) -> None:
    """Bring an image onto the node: only what is new of it, if the node has the rest."""
    thin = build_image(image, tag, "--thin")
    quiet = subprocess.run([*loader, str(thin)], capture_output=True, check=False)
    if quiet.returncode:
        must(f"load {image}:{tag}", *loader, build_image(image, tag))


def load_all(loader: list[str]) -> None:
    """Bring all images of the suite onto the node."""
    for image, tag in (
        ("sharemesh", TAG),
        ("sharemesh", NEWER),
        ("etcd", TAG),
        ("sharemesh-spark", TAG),
        ("kafka", TAG),
    ):
        load(loader, image, tag)


def check_alone() -> None:
    """Take away what a killed run left; refuse while somebody's node is up."""
    if not (RUN / "init.pid").exists():
        return
    owner = RUN / OWNER
    pid = owner.read_text().strip() if owner.exists() else ""
    if not pid or Path("/proc", pid).exists():
        raise SystemExit(
            f"e2e: a node is up on this machine ({RUN}); there is room for one. Use it with"
            f" KUBECONFIG={RUN / 'admin.conf'}, or end it with deploy/machine/down.sh"
        )
    must("what a killed run left is taken away", MACHINE / "down.sh")


def on_own_machine(stack: ExitStack) -> None:
    """Start a Kubernetes here; the stack takes it away again."""
    check_machine()
    check_alone()
    must("programs of the node", MACHINE / "build.sh", "packages")
    before = Footprint.now()

    def down() -> None:
        step("the node is taken away", MACHINE / "down.sh")
        left = Footprint.now().beyond(before)
        if left:
            raise SystemExit("e2e: left behind:\n" + "\n".join(left))
        print("nothing is left behind: no process, mount, link, route, cgroup, setting or file")

    stack.callback(down)
    os.environ["SHAREMESH_NODE_OWNER"] = str(os.getpid())  # the node goes when this process does
    must("a Kubernetes node", MACHINE / "up.sh")
    os.environ["KUBECONFIG"] = str(RUN / "admin.conf")
    os.environ["SHAREMESH_E2E_HOST_PATH"] = str(RUN / "e2e")
    os.environ["SHAREMESH_E2E_AUDIT_LOG"] = str(RUN / "log" / "audit.jsonl")
    load_all([str(MACHINE / "load.sh")])


def suite(only: list[str]) -> int:
    """Run the workers at the same time, show what each said when it ends; return the worst code."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    print("\n== end-to-end suite; its workers write to", REPORTS, flush=True)
    running: dict[str, subprocess.Popen[bytes]] = {}
    codes: dict[str, int] = {}
    try:
        for worker in WORKERS:
            with (REPORTS / f"worker-{worker}.log").open("wb") as log:
                running[worker] = subprocess.Popen(
                    [sys.executable, *TETHER, sys.executable, *PYTEST, *only, *TESTS],
                    cwd=ROOT,
                    env={**os.environ, "SHAREMESH_E2E_WORKER": worker},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        while running:
            for worker in [each for each, process in running.items() if process.poll() is not None]:
                codes[worker] = running.pop(worker).returncode
                said = (REPORTS / f"worker-{worker}.log").read_text()
                print(f"\n== worker {worker}: exit {codes[worker]}", flush=True)
                print(said, flush=True)
                if codes[worker] == 0 and not PASSED.search(said):
                    raise SystemExit(f"e2e: worker {worker} ended without running a test")
            time.sleep(POLL_S)
    except BaseException:
        for process in running.values():
            stop(process)
        raise
    if set(codes.values()) == {NONE_SELECTED}:
        return NONE_SELECTED
    return max(0 if code == NONE_SELECTED else code for code in codes.values())


def show_timings() -> None:
    """Print what the suite measured."""
    for path in sorted(REPORTS.glob("timings-*.json")):
        for what, seconds in json.loads(path.read_text()).items():
            print(f"{seconds:8.2f} s  {what}")


def main() -> int:
    """Run the suite; exit with pytest's code."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e")
    parser.add_argument("--only", default="", help="tests whose names fit (pytest -k)")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, told_to_stop)
    started = time.monotonic()
    for path in REPORTS.glob("timings-*.json"):
        path.unlink()
    with ExitStack() as stack:
        if not os.environ.get("KUBECONFIG"):
            on_own_machine(stack)
        elif loader := os.environ.get("SHAREMESH_E2E_LOAD"):
            load_all(shlex.split(loader))
        code = suite(["-k", args.only] if args.only else [])
    show_timings()
    result = "passed" if code == 0 else "FAILED"
    print(f"\nend to end: {result} in {time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
