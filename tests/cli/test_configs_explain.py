"""``sharemesh configs explain`` knows every setting, and says why some are refused."""

import json

import pytest

from sharemesh.cli.__main__ import main
from sharemesh.cli.configs import catalogue


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("share.delivery.count.limit", ("of a group", "archived", "2 or more")),
        ("group.share.max.size", ("of a cluster", "200", "1 to 1000")),
        ("retention.ms", ("of a topic", "604800000", "-1 or more")),
        ("max.poll.records", ("of a share consumer", "500", "1 or more")),
        ("linger.ms", ("of a producer", "5")),
        ("data_directory", ("of a process", "SHAREMESH_DATA_DIRECTORY")),
        ("isolation.level", ("refused", "share.isolation.level of the group")),
        ("errors.deadletterqueue.topic.name", ("not in this version",)),
    ],
)
def test_a_setting_is_explained(name, words, capsys):
    assert main(["configs", "explain", name]) == 0
    said = capsys.readouterr().out
    assert not [word for word in words if word not in said], said
    assert main(["configs", "explain", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["name"] == name


def test_an_unknown_name_is_answered_with_the_nearest(capsys):
    assert main(["configs", "explain", "share.delivery.count.limt"]) == 1
    assert "did you mean 'share.delivery.count.limit'" in capsys.readouterr().err


def test_all_settings_are_listed_with_what_they_do(capsys):
    assert main(["configs", "explain"]) == 0
    said = capsys.readouterr().out
    assert not [each.name for each in catalogue() if each.name not in said or not each.what]
