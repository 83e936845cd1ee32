"""What a failed call says that the caller should do."""

import pytest

from sharemesh.methods import (
    ALTER_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
)
from sharemesh.ports.network import Failure
from sharemesh.rpc.status import failed

CHECK = "may still take effect; check before repeating it"


def said(method) -> str:
    return str(failed(Failure.DEADLINE_EXCEEDED, method.name, "a:1", "Deadline Exceeded"))


def test_a_read_without_an_answer_in_time_is_to_be_repeated():
    words = said(DESCRIBE_SHARE_GROUP_OFFSETS)
    assert "nothing is changed by it: repeat it" in words
    assert CHECK not in words


@pytest.mark.parametrize("method", [ALTER_SHARE_GROUP_OFFSETS, PRODUCE, SHARE_ACKNOWLEDGE])
def test_a_change_without_an_answer_in_time_is_to_be_checked(method):
    assert CHECK in said(method)
