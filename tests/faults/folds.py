"""Spark's vectorised fold against the domain's, on the state logs that trials leave behind."""

from collections.abc import Iterable
from pathlib import Path

from sharemesh_spark.reader.data_directory import UnreadableLogError
from tests.faults.node import STATE_SHARDS
from tests.mesh.outcome import check_folds_of


def unequal_folds(data: Path, shards: Iterable[int] = range(STATE_SHARDS)) -> list[str]:
    """Fold each shard both ways; return what differs or cannot be read."""
    wrong, states = [], 0
    for shard in shards:
        try:
            states += check_folds_of(data, shard)
        except (AssertionError, UnreadableLogError) as error:
            wrong.append(str(error))
    if not states and not wrong:
        wrong.append(f"the state log of {data} folds to nothing: the trial says nothing of folds")
    return wrong
