"""franz-go's own tests of share groups, at the listeners of three share leaders."""

import pytest

from tests.kafka_listener.franz_go import TOLD, failed, results
from tests.kafka_listener.share_consumer_cases import sharemesh

pytestmark = [pytest.mark.kafka, pytest.mark.jury, pytest.mark.timeout(1_500)]


@pytest.mark.parametrize("records", [20_000])
def test_all_pass(tmp_path, records) -> None:
    """KLS-1, KLS-10 to KLS-15, KLS-40 to KLS-42."""
    with sharemesh(tmp_path / "data", {}) as where:
        found, said = results(where.consumers, records)
    assert failed(found) == [], said[-TOLD:]
