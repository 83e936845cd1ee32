"""Columns of records as an Arrow table; ``pyarrow`` is imported when one is asked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def arrow_table(
    offsets: Sequence[int],
    timestamps_ms: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    delivery_counts: Sequence[int],
) -> "pyarrow.Table":
    """Return a table with offset, timestamp, key, value and delivery_count.

    Raises:
        ImportError: pyarrow is not installed.
    """
    import pyarrow as pa

    return pa.table(
        {
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array(timestamps_ms, pa.timestamp("ms", "UTC")),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "delivery_count": pa.array(delivery_counts, pa.int32()),
        }
    )
