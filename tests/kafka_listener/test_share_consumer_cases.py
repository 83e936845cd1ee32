"""Cases of Kafka's own share consumer: each that Apache Kafka passes, Sharemesh passes."""

import os

import pytest

from tests.kafka.jars import KafkaMissingError
from tests.kafka_listener.share_consumer_cases import (
    PAGE,
    Outcome,
    apache_kafka,
    outcomes,
    sharemesh,
    sharemesh_on_kafka,
)

pytestmark = [pytest.mark.kafka, pytest.mark.jury, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory) -> dict[int, Outcome]:
    try:
        return outcomes(apache_kafka, apache_kafka, tmp_path_factory.mktemp("kafka"))
    except KafkaMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


def test_each_case_that_kafka_passes_sharemesh_passes(kafka, tmp_path) -> None:
    """KLS-1, KLS-10, KLS-13 to KLS-15, KLS-40 to KLS-42."""
    ours = outcomes(sharemesh, sharemesh_on_kafka, tmp_path)
    assert ours.keys() == kafka.keys()
    worse = {each: ours[each].why for each in kafka if not kafka[each].why and ours[each].why}
    assert not worse
    page = PAGE.read_text()
    assert all(f"| {each.number} | {each.name} |" in page for each in ours.values())
