"""Property: whatever happens, the machine does what a dict of single records would do."""

import os

from tests.domain.share_partition.naive_model import ModelError
from tests.domain.share_partition.random_walk import Walk

SEQUENCES = int(os.environ.get("SHAREMESH_PROPERTY_SEQUENCES", "2000"))
FIRST_SEED = int(os.environ.get("SHAREMESH_PROPERTY_START", "0"))


def test_random_histories_agree_with_the_naive_model():
    for seed in range(FIRST_SEED, FIRST_SEED + SEQUENCES):
        try:
            Walk(seed).run()
        except Exception as error:
            raise ModelError(f"seed {seed}: {error}") from error
