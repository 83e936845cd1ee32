"""The settings reference says what the code does."""

from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS
from sharemesh.domain.topics import TOPIC_CONFIGS
from tests.house.configuration_page import ACCEPTED, PAGE, RESTART, TOPIC_ACCEPTED, page


def test_the_page_is_what_the_code_says():
    written = PAGE.read_text(encoding="utf-8")
    assert written == page(), "run python -m tests.house.configuration_page"


def test_what_needs_a_restart_or_has_no_effect_are_names_that_exist():
    assert set(CLUSTER_CONFIGS) >= RESTART | ACCEPTED
    assert not RESTART & ACCEPTED
    assert set(TOPIC_CONFIGS) >= TOPIC_ACCEPTED
