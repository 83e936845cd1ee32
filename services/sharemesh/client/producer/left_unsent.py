"""A program that ends is told of records that it sent and did not wait for (CL-48)."""

import logging
import os
import weakref
from collections.abc import Callable

_log = logging.getLogger(__name__)


def warn_at_exit(producer: object, unsettled_bytes: Callable[[], int]) -> None:
    """Look at a producer when the interpreter ends, if it is still there then.

    ``unsettled_bytes`` is a method of it: the size of records whose outcome is not known.
    """
    # a reference that counts would keep it, and its thread, for ever
    weakref.finalize(producer, _warn, weakref.WeakMethod(unsettled_bytes), os.getpid())


def _warn(unsettled_bytes: "weakref.WeakMethod[Callable[[], int]]", process_id: int) -> None:
    ask = unsettled_bytes()
    if ask is None or os.getpid() != process_id:
        return  # a process that was forked sends nothing of it
    size_bytes = ask()
    if size_bytes:
        _log.warning(
            "the program ends while %d bytes of records that it sent are not confirmed, and they "
            "may be lost: call flush() or close() first, or use the producer in a with block",
            size_bytes,
        )
