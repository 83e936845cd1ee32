"""A program that ends is told of records that it sent and did not wait for (CL-48)."""

import logging
import os
import weakref
from typing import Protocol

_log = logging.getLogger(__name__)


class Unsettled(Protocol):
    """What holds records whose outcome is not known."""

    def unsettled_bytes(self) -> int:
        """Return their size; 0 once it is closed."""
        ...


def warn_at_exit(producer: Unsettled) -> None:
    """Look at a producer when the interpreter ends, if it is still there then."""
    # a reference that counts would keep it, and its thread, for ever
    weakref.finalize(producer, _warn, weakref.ref(producer), os.getpid())


def _warn(producer: weakref.ref[Unsettled], process_id: int) -> None:
    found = producer()
    if found is None or os.getpid() != process_id:
        return  # a process that was forked sends nothing of it
    size_bytes = found.unsettled_bytes()
    if size_bytes:
        _log.warning(
            "the program ends while %d bytes of records that it sent are not confirmed, and they "
            "may be lost: call flush() or close() first, or use the producer in a with block",
            size_bytes,
        )
