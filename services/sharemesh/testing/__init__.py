"""A mesh in memory for the tests of applications: one event loop, no sockets, no files."""

from sharemesh.testing.clock import MeshClock
from sharemesh.testing.memory_disk import MemoryDisk
from sharemesh.testing.mesh import Mesh
from sharemesh.testing.network import LocalNetwork

__all__ = ["LocalNetwork", "MemoryDisk", "Mesh", "MeshClock"]
