"""The error of everything that needs a running cluster and does not get it."""

from sharemesh_operator.resources.problems import problem


class ClusterConnectionError(Exception):
    """The cluster cannot be reached or used; ``problem`` says why and what to do."""

    def __init__(self, reason: str, **about: object) -> None:
        self.problem = problem(reason, **about)
        super().__init__(f"{reason}: {self.problem.message}")
