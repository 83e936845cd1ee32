"""Metrics of the groups that this process coordinates (spec MET-5)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_group.group import GroupState, ShareGroup
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Observation, Registry


class GroupGauges:
    """Counts groups by state, members, and raises of group epochs seen between collections."""

    def __init__(self, groups: Callable[[], Iterable[Mapping[GroupId, ShareGroup]]]) -> None:
        self._groups = groups
        self._epochs: dict[GroupId, int] = {}
        self._raised = 0

    def register(self, registry: Registry) -> None:
        """Register the metrics."""
        registry.observe(names.GROUPS, self._by_state)
        registry.observe(names.GROUP_MEMBERS, self._members)
        registry.observe(names.GROUP_EPOCHS, self._epochs_raised)

    def _all(self) -> Iterator[ShareGroup]:
        for groups in self._groups():
            yield from groups.values()

    def _by_state(self) -> Iterator[Observation]:
        found = Counter(group.state for group in self._all())
        for state in GroupState:
            yield (state.name.lower(),), found[state]

    def _members(self) -> Iterator[Observation]:
        yield (), sum(len(group.members) for group in self._all())

    def _epochs_raised(self) -> Iterator[Observation]:
        seen = {group.group_id: group.epoch for group in self._all()}
        for group_id, epoch in seen.items():
            before = self._epochs.get(group_id)
            self._raised += 0 if before is None else max(0, epoch - before)
        self._epochs = seen
        yield (), self._raised
