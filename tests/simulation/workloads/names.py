"""The workloads by name."""

from tests.simulation.workloads.mixed import MixedWorkload

WORKLOADS: dict[str, type[MixedWorkload]] = {"mixed": MixedWorkload}
