"""Where a group shall start: from a scenario or a CSV file (spec CLI-7) to offsets by partition.

A file has a row for each partition: topic,partition,offset.
"""

import argparse
import csv
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from sharemesh.cli.formatting import nearest
from sharemesh.cli.session import CommandError
from sharemesh.client import AdminClient
from sharemesh.client.admin.client import EARLIEST, LATEST
from sharemesh.client.admin_results import GroupOffset, LogOffset, TopicDescription, TopicPartition
from sharemesh.client.errors import SharemeshError
from sharemesh.domain.ids import OFFSET_MAX
from sharemesh.domain.setting_values import is_written_whole

ROWS_MAX = 100_000
BYTES_MAX = 32 * 1024 * 1024
_DATETIME_FORMS = (
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%Y-%m-%dT%H:%M:%S%z",
)


def add_scenarios(options: argparse._ActionsContainer) -> None:
    """Add the options that name where a group shall start."""
    options.add_argument("--to-earliest", action="store_true", help="at the oldest record")
    options.add_argument("--to-latest", action="store_true", help="behind the newest record")
    options.add_argument("--to-current", action="store_true", help="where it starts now")
    options.add_argument(
        "--to-datetime",
        metavar="YYYY-MM-DDThh:mm:ss.sss",
        help="at the first record of this time or later (UTC unless a zone follows)",
    )
    options.add_argument("--to-offset", type=int, metavar="N", help="at this offset")
    options.add_argument("--shift-by", type=int, metavar="N", help="N offsets further; may be < 0")


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
            if not is_written_whole(part) or int(part) not in have:
                raise CommandError(
                    f"partition {part!r} of topic {name!r} does not exist: it has 0 to {max(have)}"
                )
            wanted.append(TopicPartition(name, int(part)))
    return wanted


def plan(
    admin: AdminClient,
    group_id: str,
    scope: Sequence[TopicPartition],
    args: argparse.Namespace,
) -> dict[TopicPartition, int]:
    """Return the new start offset of each partition, as the options of ``add_scenarios`` say.

    Raises:
        CommandError: The time cannot be read, or the offset is negative.
        SharemeshError: An offset cannot be looked up.
    """
    if args.to_offset is not None and args.to_offset < 0:
        raise CommandError(f"--to-offset {args.to_offset}: must not be negative", code=2)
    time_ms = 0 if args.to_datetime is None else timestamp_ms(args.to_datetime)
    if args.to_current:
        current = admin.list_share_group_offsets(group_id)
        return {
            where: found.start_offset
            for where in scope
            if isinstance(found := current.get(where), GroupOffset)
        }
    ends = _offsets(admin, dict.fromkeys(scope, LATEST))
    if args.to_latest:
        return ends
    starts = _offsets(admin, dict.fromkeys(scope, EARLIEST))
    if args.to_earliest:
        return starts
    if args.to_offset is not None:
        return _within(dict.fromkeys(scope, args.to_offset), starts, ends)
    if args.shift_by is not None:
        return _within(_shifted(admin, group_id, scope, args.shift_by), starts, ends)
    timed = _offsets(admin, dict.fromkeys(scope, time_ms))
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


def offsets_as_csv(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the rows, without a heading, by topic and partition."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for where, offset in sorted(offsets.items()):
        writer.writerow((where.topic, where.partition, offset))
    return out.getvalue()


def offsets_of_file(name: str) -> dict[TopicPartition, int]:
    """Return the offsets of a file.

    Raises:
        CommandError: It cannot be read, is too long, has another form, or names a partition twice.
    """
    try:
        with Path(name).open(encoding="utf-8", newline="") as file:
            text = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise CommandError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{name} is no UTF-8 text: {error.reason}") from error
    if len(text) > BYTES_MAX:
        raise CommandError(f"{name} is longer than {BYTES_MAX} characters; split it")
    found: dict[TopicPartition, int] = {}
    rows = csv.reader(io.StringIO(text), strict=True)
    try:
        for row in rows:
            if row:
                _take(row, found, f"{name}, line {rows.line_num}")
    except csv.Error as error:
        raise CommandError(f"{name}, line {rows.line_num}: not CSV ({error})") from error
    if not found:
        raise CommandError(f"{name} holds no row of topic,partition,offset")
    return found


def _take(row: list[str], found: dict[TopicPartition, int], place: str) -> None:
    if len(found) == ROWS_MAX:
        raise CommandError(f"{place}: more than {ROWS_MAX} rows; split the file")
    cells = [cell.strip() for cell in row]
    if len(cells) != 3 or not cells[0] or not all(_is_number(cell) for cell in cells[1:]):
        raise CommandError(f"{place}: {','.join(row)!r}: expected topic,partition,offset")
    where, offset = TopicPartition(cells[0], int(cells[1])), int(cells[2])
    if offset > OFFSET_MAX:
        raise CommandError(f"{place}: offset {offset} is larger than any offset can be")
    if where in found:
        raise CommandError(f"{place}: {where} stands in the file twice")
    found[where] = offset


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(OFFSET_MAX))
