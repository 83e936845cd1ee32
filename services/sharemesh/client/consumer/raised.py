"""What a handler of ``run`` raised: an exception, or several in a group."""

from collections.abc import Iterator


def is_of(
    error: BaseException,
    kinds: tuple[type[BaseException], ...],
    *,
    but: tuple[type[BaseException], ...],
) -> bool:
    """Whether an exception is of ``kinds`` and of none of ``but``; of a group each one is judged.

    ``asyncio.TaskGroup`` raises groups.
    """
    return all(isinstance(each, kinds) and not isinstance(each, but) for each in _leaves(error))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
