"""Where a group shall start anew: from a scenario of spec CLI-7 to offsets by partition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sharemesh.cli.formatting import nearest
from sharemesh.cli.session import CommandError
from sharemesh.client import AdminClient
from sharemesh.client.admin.async_client import EARLIEST, LATEST
from sharemesh.client.admin_results import GroupOffset, LogOffset, TopicDescription, TopicPartition
from sharemesh.client.errors import SharemeshError

_DATETIME_FORMS = (
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%Y-%m-%dT%H:%M:%S%z",
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Exactly one of these: earliest, latest, current, time (ms), offset, shift (by so many)."""

    kind: str
    number: int = 0


def timestamp_ms(text: str) -> int:
    """Return ms since the epoch of ``YYYY-MM-DDThh:mm:ss.sss`` (spec CLI-8); UTC without a zone.

    Raises:
        CommandError: It has another form.
    """
    for form in _DATETIME_FORMS:
        try:
            found = datetime.strptime(text, form)  # noqa: DTZ007 - the zone is added below
        except ValueError:
            continue
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        return int(found.timestamp() * 1_000)
    raise CommandError(f"{text!r} is no time: expected YYYY-MM-DDThh:mm:ss.sss", code=2)


def scope_of(
    admin: AdminClient, topics: Sequence[str], *, of_group: str | None
) -> list[TopicPartition]:
    """Return the partitions of ``topic`` or ``topic:p,p`` texts, or all that a group has.

    Raises:
        CommandError: A topic or partition does not exist.
    """
    if of_group is not None:
        return sorted(admin.list_share_group_offsets(of_group))
    wanted: list[TopicPartition] = []
    names = [text.partition(":")[0] for text in topics]
    found = admin.describe_topics(names)
    for text in topics:
        name, _, numbers = text.partition(":")
        topic = found.get(name)
        if not isinstance(topic, TopicDescription):
            known = admin.list_topics()
            raise CommandError(f"topic {name!r} does not exist{nearest(name, known)}")
        have = {each.partition for each in topic.partitions}
        if not numbers:
            wanted.extend(TopicPartition(name, number) for number in sorted(have))
            continue
        for part in numbers.split(","):
            if not part.isdigit() or int(part) not in have:
                raise CommandError(
                    f"partition {part!r} of topic {name!r} does not exist: it has 0 to {max(have)}"
                )
            wanted.append(TopicPartition(name, int(part)))
    return wanted


def plan(
    admin: AdminClient, group_id: str, scope: Sequence[TopicPartition], scenario: Scenario
) -> dict[TopicPartition, int]:
    """Return the new start offset of each partition.

    Raises:
        SharemeshError: An offset cannot be looked up.
    """
    if scenario.kind == "current":
        current = admin.list_share_group_offsets(group_id)
        return {
            where: found.start_offset
            for where in scope
            if isinstance(found := current.get(where), GroupOffset)
        }
    ends = _offsets(admin, dict.fromkeys(scope, LATEST))
    if scenario.kind == "latest":
        return ends
    starts = _offsets(admin, dict.fromkeys(scope, EARLIEST))
    if scenario.kind == "earliest":
        return starts
    if scenario.kind == "offset":
        return _within(dict.fromkeys(scope, scenario.number), starts, ends)
    if scenario.kind == "shift":
        return _within(_shifted(admin, group_id, scope, scenario.number), starts, ends)
    timed = _offsets(admin, dict.fromkeys(scope, scenario.number))
    return {where: offset if offset >= 0 else ends[where] for where, offset in timed.items()}


def of_file(admin: AdminClient, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return given offsets, moved to the nearest one that the log has.

    Raises:
        CommandError: A topic or partition does not exist.
        SharemeshError: An offset cannot be looked up.
    """
    numbers: dict[str, list[str]] = {}
    for where in wanted:
        numbers.setdefault(where.topic, []).append(str(where.partition))
    scope_of(admin, [f"{name}:{','.join(each)}" for name, each in numbers.items()], of_group=None)
    starts = _offsets(admin, dict.fromkeys(wanted, EARLIEST))
    return _within(wanted, starts, _offsets(admin, dict.fromkeys(wanted, LATEST)))


def _shifted(
    admin: AdminClient, group_id: str, scope: Sequence[TopicPartition], by: int
) -> dict[TopicPartition, int]:
    current = admin.list_share_group_offsets(group_id)
    found: dict[TopicPartition, int] = {}
    for where in scope:
        stands = current.get(where)
        if isinstance(stands, SharemeshError):
            raise stands
        if not isinstance(stands, GroupOffset):
            raise CommandError(
                f"cannot shift {where}: group {group_id!r} has no start offset there yet; give "
                "--to-offset, --to-earliest or --to-latest"
            )
        found[where] = stands.start_offset + by
    return found


def _within(
    wanted: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    return {where: min(max(offset, starts[where]), ends[where]) for where, offset in wanted.items()}


def _offsets(admin: AdminClient, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for where, answer in admin.list_offsets(wanted).items():
        if isinstance(answer, SharemeshError):
            raise answer
        assert isinstance(answer, LogOffset)
        found[where] = answer.offset
    return found
