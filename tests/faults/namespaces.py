"""Network namespaces on a bridge of their own; a cut drops packets without a word. Needs root."""

import os
import subprocess
from collections.abc import Iterable
from itertools import count
from pathlib import Path

_numbers = range(10, 250)


class Namespaces:
    """One bridge and the namespaces on it; use it as a context manager."""

    def __init__(self) -> None:
        first = os.getpid() % len(_numbers)
        turn = (_numbers[(first + step) % len(_numbers)] for step in range(len(_numbers)))
        # What a killed run left behind is stepped around.
        number = next(each for each in turn if not Path(f"/sys/class/net/sm{each}").exists())
        self._tag = f"sm{number}"
        self._prefix = f"10.213.{number}"
        self._hosts = count(2)
        self._names: list[str] = []
        self._linked: list[str] = []

    @property
    def host(self) -> str:
        """The address of this side."""
        return f"{self._prefix}.1"

    def __enter__(self) -> "Namespaces":
        _ip("link", "add", self._tag, "type", "bridge")
        _ip("addr", "add", f"{self.host}/24", "dev", self._tag)
        _ip("link", "set", self._tag, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._linked:
            _ip("link", "del", _veth(name)[0])  # else the kernel does, a while after the namespace
        for name in self._names:
            _ip("netns", "del", name)
        _ip("link", "del", self._tag)

    def add(self) -> tuple[str, str]:
        """Make a namespace on the bridge; return (name, its address)."""
        host = next(self._hosts)
        name, address = f"{self._tag}-{host}", f"{self._prefix}.{host}"
        _ip("netns", "add", name)
        self._names.append(name)
        outer, inner = _veth(name)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
        self._linked.append(name)
        _ip("link", "set", outer, "master", self._tag, "up")
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", inner)
        _ip("-n", name, "link", "set", inner, "up")
        _ip("-n", name, "link", "set", "lo", "up")
        return name, address

    def part(self, name: str, others: Iterable[str]) -> None:
        """Let nothing pass between a namespace and some addresses; everybody else reaches both."""
        for address in others:
            _ip("-n", name, "route", "add", "blackhole", f"{address}/32")

    def join(self, name: str, others: Iterable[str]) -> None:
        """Undo that."""
        for address in others:
            _ip("-n", name, "route", "del", "blackhole", f"{address}/32")

    def cut(self, name: str) -> None:
        """Let nothing in or out of a namespace."""
        _ip("link", "set", _veth(name)[0], "down")

    def heal(self, name: str) -> None:
        """Undo a cut."""
        _ip("link", "set", _veth(name)[0], "up")


def inside(name: str) -> tuple[str, ...]:
    """Return what to put before a command so that it runs in a namespace."""
    return ("ip", "netns", "exec", name)


def available() -> bool:
    """Return whether this process may make namespaces (root, and iproute2 is there)."""
    return (
        os.geteuid() == 0
        and subprocess.run(["ip", "-V"], capture_output=True, check=False).returncode == 0
    )


def _veth(name: str) -> tuple[str, str]:
    return f"v{name}", f"i{name}"


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
