"""What a log says about aborted transactions of a range."""

from sharemesh.ports.record_log import PartitionLog


async def aborted_in(
    log: PartitionLog, offset: int, end_offset: int | None = None
) -> list[tuple[int, int]]:
    """Return producer id and first offset of each aborted transaction that overlaps the range."""
    read = await log.read(offset, max_bytes=1 << 20, end_offset=end_offset, committed=True)
    assert read.aborted is not None
    return [(each.producer_id, each.first_offset) for each in read.aborted]
