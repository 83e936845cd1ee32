"""The comparison with Kafka's histories sees a change of any value that it must compare."""

import copy

import pytest

from tests.conformance.traces import FREE, first_difference, histories


def spoiled(value):
    """Return a value that differs as little as it can."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return "X" + value
    if value is None:
        return "INVALID_REQUEST: spoiled"
    if isinstance(value, list):
        return [*value[:-1], spoiled(value[-1])] if value else [[0, 0, 1]]
    return {**value, "spoiled": "INVALID_REQUEST: spoiled"}


def places():
    """Return for each compared field the first (history, step, path) with and without content."""
    found = {}
    for history in histories():
        for number, (_, theirs) in enumerate(history["steps"]):
            if "exception" in theirs:
                break
            for path, value in fields(theirs):
                shape = (path, type(value).__name__, bool(value))
                found.setdefault(shape, (history, number, path))
    return found


def fields(response):
    for key, value in response.items():
        if key == "state":
            for inner, content in value.items():
                if inner == "persisted":
                    for name, each in content.items():
                        yield ("state", "persisted", name), each
                elif inner not in FREE:
                    yield ("state", inner), content
        elif key not in FREE:
            yield (key,), value


PLACES = places()


def changed(history, number, path, change):
    copied = {**history, "steps": list(history["steps"])}
    request, response = copy.deepcopy(copied["steps"][number])
    holder = response
    for key in path[:-1]:
        holder = holder[key]
    change(holder, path[-1])
    copied["steps"][number] = (request, response)
    return copied


def test_the_histories_hold_every_field_of_the_protocol():
    names = {path[-1] for path, _, _ in PLACES}
    assert names >= {
        *("error", "future", "futures", "completed", "appended", "removed", "offset", "ran"),
        *("fetch_offset", "can_acquire", "fetched", "acquired", "count"),
        *("now", "partition", "start", "end", "next", "complete", "state_epoch"),
        *("log_start", "log_end", "gap_window", "offsets", "held", "batches"),
    }


@pytest.mark.parametrize("shape", sorted(PLACES), ids=str)
def test_a_changed_value_is_seen(shape):
    history, number, path = PLACES[shape]

    def spoil(holder, name):
        holder[name] = spoiled(holder[name])

    difference = first_difference(changed(history, number, path, spoil))
    assert difference is not None
    assert difference.step == number


@pytest.mark.parametrize("shape", sorted(PLACES), ids=str)
def test_a_missing_value_is_seen(shape):
    history, number, path = PLACES[shape]
    difference = first_difference(changed(history, number, path, dict.pop))
    assert difference is not None
    assert difference.step == number


@pytest.mark.parametrize("column", range(6))
def test_every_column_of_a_cached_offset_is_compared(column):
    for history in histories():
        for number, (_, theirs) in enumerate(history["steps"]):
            if "exception" in theirs:
                break
            rows = theirs.get("state", {}).get("offsets", [])
            index = next((i for i, row in enumerate(rows) if len(row) > column), None)
            if index is None:
                continue

            def spoil(holder, name, index=index):
                holder[name][index][column] = spoiled(holder[name][index][column])

            difference = first_difference(changed(history, number, ("state", "offsets"), spoil))
            assert difference is not None
            assert (difference.step, difference.field) == (number, "offsets")
            return
    pytest.fail("no history holds such a row")
