"""Whether the delivery-complete count in storage may be wrong, and what corrects it (ACK-23)."""


class StoredCount:
    """What is known of the stored count, beside the one that the cache has."""

    __slots__ = ("_is_recount", "_settling", "_start_offset")

    def __init__(self) -> None:
        self._start_offset: int | None = None  # where the count may be wrong
        self._settling: int | None = None  # the write that corrects it once it is stored
        self._is_recount = False

    @property
    def is_doubtful(self) -> bool:
        """Whether the stored count may be wrong now."""
        return self._start_offset is not None

    @property
    def is_left(self) -> bool:
        """Whether it may be wrong, and no write is out that corrects it."""
        return self._start_offset is not None and self._settling is None

    def doubt(self, start_offset: int) -> None:
        """The count differs, or is one of a write that knew more finished than there is now."""
        self._start_offset, self._settling = start_offset, None

    def sent(self, write_id: int, start_offset: int, *, is_alone: bool) -> bool:
        """A write goes out; return whether it is a recount.

        Args:
            write_id: Names it.
            start_offset: That it carries.
            is_alone: No other write is out.
        """
        if self._start_offset is None or (self._settling is not None and not self._is_recount):
            return False
        self._settling = None  # of a recount and another write, either may be stored last
        if is_alone or start_offset > self._start_offset:
            self._settling, self._is_recount = write_id, is_alone
        return is_alone

    def answered(self, write_id: int, *, is_stored: bool) -> None:
        """The answer to a write has come."""
        if write_id == self._settling:
            self._settling = None
            if is_stored:
                self._start_offset = None
