"""Property: whatever happens, the machine does what a dict of single records would do."""

import os

import pytest

from tests.domain.share_partition.naive_model import ModelError
from tests.domain.share_partition.random_walk import EVENTS, Walk

SEQUENCES = int(os.environ.get("SHAREMESH_PROPERTY_SEQUENCES", "2000"))
FIRST_SEED = int(os.environ.get("SHAREMESH_PROPERTY_START", "0"))
CHUNK = 100


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEQUENCES, CHUNK))
def test_random_histories_agree_with_the_naive_model(first):
    assert EVENTS >= 50
    for seed in range(first, min(first + CHUNK, FIRST_SEED + SEQUENCES)):
        try:
            Walk(seed).run()
        except Exception as error:
            raise ModelError(f"seed {seed}: {error}") from error


def test_the_first_histories_agree_with_the_naive_model():
    for seed in range(30):
        Walk(seed).run()
