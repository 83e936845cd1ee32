"""What a machine shows of a Kubernetes on it: to prove that nothing is left afterwards."""

import os
import subprocess
from dataclasses import dataclass, fields
from pathlib import Path

CACHE = Path(os.environ.get("SHAREMESH_CACHE") or Path.home() / ".cache" / "sharemesh")
SETTINGS = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "net/ipv4/ip_forward")
FOLDERS = (
    "/run/containerd",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/pods",
    "/var/log/containers",
    "/tmp/hostpath_pv",
    "/opt/cni",
    "/etc/cni/net.d",
)


def _lines(*command: str) -> frozenset[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return frozenset(line.strip() for line in done.stdout.splitlines() if line.strip())


def _links() -> frozenset[str]:
    return frozenset(path.name for path in Path("/sys/class/net").iterdir())


def _processes() -> frozenset[str]:
    """Return the node's processes: they run the cache's programs, or in namespaces of their own."""
    own = Path("/proc/self/ns/pid").readlink()
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit():
                continue
            cached = (entry / "exe").readlink().is_relative_to(CACHE / "bin")
            if cached or (entry / "ns" / "pid").readlink() != own:
                found.add(f"{entry.name} {(entry / 'comm').read_text().strip()}")
        except OSError:
            continue  # it ended meanwhile, or is the kernel's own
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Footprint:
    """One look at the machine."""

    processes: frozenset[str]
    mounts: frozenset[str]
    links: frozenset[str]
    routes: frozenset[str]
    cgroups: frozenset[str]
    settings: frozenset[str]
    folders: frozenset[str]

    @classmethod
    def now(cls) -> "Footprint":
        """Look."""
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        return cls(
            processes=_processes(),
            mounts=frozenset(" ".join(line.split()[:2]) for line in mounts),
            links=_links(),
            routes=_lines("ip", "route"),
            cgroups=_lines("find", "/sys/fs/cgroup", "-name", "kubepods*", "-type", "d"),
            settings=frozenset(
                f"{name} = {Path('/proc/sys', name).read_text().strip()}" for name in SETTINGS
            ),
            folders=frozenset(folder for folder in FOLDERS if Path(folder).exists()),
        )

    def beyond(self, before: "Footprint") -> list[str]:
        """Return what is here now and was not before."""
        found = []
        for each in fields(self):
            more = getattr(self, each.name) - getattr(before, each.name)
            found += [f"{each.name}: {line}" for line in sorted(more)]
        return found
