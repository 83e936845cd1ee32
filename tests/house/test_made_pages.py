"""Pages that are made from code say what the code says, and say all of it."""

import re
from importlib.resources import files

import pytest

from deploy.pages import command_line, configuration, error_codes, python_api, rights
from deploy.pages.__main__ import MADE
from sharemesh import client
from sharemesh.authorization.permissions import PERMISSIONS, Open
from sharemesh.cli.commands import command_line as program
from sharemesh.client.errors import error_for
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS
from sharemesh.domain.topics import TOPIC_CONFIGS


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.PAGE.name)
def test_a_page_is_what_the_code_says(made):
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run make docs"


def test_every_class_that_applications_import_has_a_section():
    text = python_api.page()
    assert not [name for name in client.__all__ if f"### `{name}" not in text]


def test_the_package_says_that_it_is_typed():
    assert files("sharemesh").joinpath("py.typed").is_file()


def test_every_command_that_help_names_has_a_section():
    named = re.findall(r"^    ([a-z-]+)", program().format_help(), re.MULTILINE)
    assert len(named) > 10
    text = command_line.page()
    assert [name for name in named if f"### sharemesh {name}\n" not in text] == []


def test_settings_that_need_a_restart_or_have_no_effect_exist():
    assert set(CLUSTER_CONFIGS) >= configuration.RESTART | configuration.ACCEPTED
    assert not configuration.RESTART & configuration.ACCEPTED
    assert set(TOPIC_CONFIGS) >= configuration.TOPIC_ACCEPTED


def test_every_error_code_has_an_advice_and_an_exception_of_its_own():
    codes = set(ErrorCode) - {ErrorCode.NONE}
    assert error_codes.ADVICE.keys() == codes
    assert len({type(error_for(code)) for code in codes}) == len(codes)


def test_every_method_that_needs_a_permission_belongs_to_one_task():
    named = [call.name for calls in rights.TASKS.values() for call in calls]
    needing = [name for name, needs in PERMISSIONS.items() if not isinstance(needs, Open)]
    assert sorted(named) == sorted(needing)


@pytest.mark.parametrize(
    "row",
    [
        "| produce; the second only for transactional batches | "
        "WRITE topic, WRITE transactional_id |",
        "| consume | READ group, READ topic |",
        "| create a topic | CREATE topic or CREATE cluster |",
        "| set start offsets | READ group, READ topic |",
        "| delete a topic, or records of it | DELETE topic |",
    ],
)
def test_a_task_needs_what_its_methods_need_without_what_is_implied(row):
    assert row in rights.section().splitlines()
