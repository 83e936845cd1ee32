"""Seeds in processes of their own: each ends in the state it was killed in, and is thrown away."""

import gc
import importlib
import multiprocessing
import pkgutil
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from sharemesh.serve import roles

Task = TypeVar("Task")
Result = TypeVar("Result")

IMPORTED_LATE = ("pandas", "pyarrow.compute", "pyarrow.parquet")


def prepare() -> None:
    """Import what a run imports late, and take it all from the collector: children share it."""
    for module in pkgutil.iter_modules(roles.__path__, f"{roles.__name__}."):
        importlib.import_module(module.name)
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    gc.disable()
    gc.collect()
    gc.freeze()


def in_processes(
    run: Callable[[Task], Result], tasks: Iterable[Task], processes: int
) -> Generator[Result, None, None]:
    """Yield the results in order; when the caller closes the iterator the rest is not run."""
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap(run, tasks, chunksize=1)
