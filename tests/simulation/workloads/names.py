"""The workloads by name."""

from tests.simulation.workloads.mixed import MixedWorkload, ShortWorkload

WORKLOADS: dict[str, type[MixedWorkload]] = {"mixed": MixedWorkload, "short": ShortWorkload}
