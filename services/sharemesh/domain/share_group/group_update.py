"""A change in the making: records, and the group as it will be once they are kept."""

from dataclasses import dataclass, field

from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_group.group import FIRST_EPOCH, ShareGroup
from sharemesh.domain.share_group.records import GroupLogRecord


@dataclass(slots=True)
class GroupUpdate:
    """Works on a copy: the group itself changes only when the records are applied to it."""

    group: ShareGroup
    records: list[GroupLogRecord] = field(default_factory=list)

    def emit(self, record: GroupLogRecord) -> None:
        """Add a record and see its effect at once."""
        self.records.append(record)
        self.group.apply(record)


def draft_of(group: ShareGroup | None, group_id: GroupId, floor: int = FIRST_EPOCH) -> GroupUpdate:
    """Return a draft of a group, or of a new one whose epoch starts at ``floor``."""
    return GroupUpdate(group.copy() if group is not None else ShareGroup(group_id, floor))
