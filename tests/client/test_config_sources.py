"""Settings from files and from the environment."""

import pytest

from sharemesh.client import connect
from sharemesh.client.config_sources import FILE_VARIABLE, from_environment, from_file
from sharemesh.client.errors import ConfigError


def test_files_are_name_and_value_lines(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text("# comment\n\nmax.poll.records = 7\ngroup.id=g=1\n")
    assert from_file(path) == {"max.poll.records": "7", "group.id": "g=1"}
    path.write_text("nonsense\n")
    with pytest.raises(ConfigError, match="line 1"):
        from_file(path)
    with pytest.raises(ConfigError, match="cannot read"):
        from_file(tmp_path / "absent")


def test_variables_win_over_the_file_that_one_of_them_names(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text("max.poll.records=7\nclient.id=mine\n")
    variables = {
        FILE_VARIABLE: str(path),
        "SHAREMESH_BOOTSTRAP": "h:1",
        "SHAREMESH_MAX_POLL_RECORDS": "3",
        "SHAREMESH_VALUE_DESERIALIZER": "a name is no function",
        "SHAREMESH_CLIENT_RACK": "",
        "OTHER": "x",
    }
    assert from_environment(variables) == {
        "bootstrap.servers": "h:1",
        "max.poll.records": "3",
        "client.id": "mine",
    }


def test_each_client_takes_what_it_knows_of_the_environment(monkeypatch):
    monkeypatch.setenv("SHAREMESH_BOOTSTRAP", "h:1")
    monkeypatch.setenv("SHAREMESH_MAX_POLL_RECORDS", "3")
    monkeypatch.setenv("SHAREMESH_LINGER_MS", "9")
    cluster = connect()
    consumer = cluster.share_consumer("g", max_poll_records=4)  # the program's word counts
    assert consumer.metrics() == {"poll-total": 0}
    consumer.close()
    cluster.producer().close()
    cluster.admin().close()
    monkeypatch.setenv("SHAREMESH_MAX_POLL_RECORDS", "none")
    with pytest.raises(ConfigError, match=r"max\.poll\.records"):
        connect().share_consumer("g")


def test_an_address_in_the_program_leaves_the_environment_alone(monkeypatch):
    monkeypatch.setenv("SHAREMESH_MAX_POLL_RECORDS", "none")
    connect("h:1").share_consumer("g").close()
