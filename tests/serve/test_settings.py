"""Settings: flags over environment over file, every mistake is one clear sentence."""

import pytest

from sharemesh.ports.cluster import Role
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.sources import ConfigFile, read_file, serve_settings, up_settings


def refused(flags=(), environment=(), file=None) -> str:
    with pytest.raises(StartError) as caught:
        serve_settings(dict(flags), dict(environment), file or ConfigFile())
    assert caught.value.code is ExitCode.SETTINGS
    return caught.value.message


def written(tmp_path, text: str, name: str = "cluster.toml"):
    path = tmp_path / name
    path.write_text(text)
    return read_file(path)


def test_flags_win_over_environment_over_file_over_defaults(tmp_path) -> None:
    file = written(tmp_path, 'rack = "file"\nlisten_port = 1\ngroup_shards = 9')
    environment = {"SHAREMESH_RACK": "environment", "SHAREMESH_LISTEN_PORT": "2"}
    settings = serve_settings({"rack": "flag"}, environment, file)
    assert (settings.rack, settings.listen_port) == ("flag", 2)
    assert (settings.group_shards, settings.state_shards) == (9, 8)


def test_all_roles_without_etcd_is_one_process_in_memory() -> None:
    settings = serve_settings({}, {}, ConfigFile())
    assert settings.in_memory
    assert settings.roles == tuple(Role)


def test_one_role_needs_etcd() -> None:
    assert "needs etcd" in refused({"role": "share-leader"})
    settings = serve_settings(
        {"role": "share-leader", "etcd_endpoints": "a:1, b:2"}, {}, ConfigFile()
    )
    assert settings.etcd_endpoints == ("a:1", "b:2")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"role": "share-lead"}, "did you mean share-leader?"),
        ({"listen_port": "70000"}, "not within 0..65535"),
        ({"listen_port": "x"}, "'x' is not a whole number"),
        ({"session_ttl_ms": "1"}, "not within 2000..600000"),
        ({"reflection": "maybe"}, "neither true nor false"),
        ({"cluster_id": "a/b"}, "slash"),
        ({"etcd_endpoints": "nowhere"}, "'nowhere' is not host:port"),
        ({"tls_certificate": "x.pem"}, "tls_certificate and tls_key go together"),
        ({"tls_authority": "x.pem"}, "needs tls_certificate"),
        ({"listen_host": "0.0.0.0"}, "set advertised_host"),
        ({"configs": ["group.share.max.size"]}, "name=value"),
        ({"configs": ["group.share.max.sise=3"]}, "did you mean group.share.max.size?"),
        ({"configs": ["group.share.max.size=0"]}, "not within 1..1000"),
    ],
)
def test_mistakes_name_setting_value_and_remedy(flags, expected) -> None:
    assert expected in refused(flags)


def test_unknown_names_in_a_file_offer_the_nearest_one(tmp_path) -> None:
    assert "did you mean listen_port?" in refused(file=written(tmp_path, "listen_prot = 1"))
    assert "did you mean settings?" in refused(file=written(tmp_path, "[setings]\na = 1"))
    with pytest.raises(StartError, match=r"did you mean share_leaders\?"):
        up_settings({}, written(tmp_path, "[up]\nshare_leader = 4"))


@pytest.mark.parametrize(
    "text",
    [
        "[settings]\ngroup.share.max.size = 100\ngroup.share.assignors = 'simple'",
        "[settings]\n'group.share.max.size' = 100\n'group.share.assignors' = 'simple'",
        "[settings.group.share]\nmax.size = 100\nassignors = 'simple'",
    ],
)
def test_kafka_names_may_be_quoted_or_nested(tmp_path, text) -> None:
    settings = serve_settings({}, {}, written(tmp_path, text))
    assert settings.configs == {"group.share.max.size": "100", "group.share.assignors": "simple"}


def test_kafka_settings_are_checked_against_each_other(tmp_path) -> None:
    text = "[settings]\ngroup.share.heartbeat.interval.ms = 15000\n" + (
        "group.share.session.timeout.ms = 45000\ngroup.share.max.size = 1000\n"
        "group.share.max.share.sessions = 999\n"
    )
    assert "999 is below group.share.max.size 1000" in refused(file=written(tmp_path, text))


def test_flag_settings_win_over_the_file(tmp_path) -> None:
    file = written(tmp_path, "[settings]\ngroup.share.max.size = 100")
    settings = serve_settings({"configs": ["group.share.max.size=7"]}, {}, file)
    assert settings.configs["group.share.max.size"] == "7"


def test_yaml_says_the_same_as_toml(tmp_path) -> None:
    toml = written(tmp_path, "rack = 'r'\n[up]\nshare_leaders = 4\n[settings]\na.b = true\n")
    yaml = written(
        tmp_path, "rack: r\nup:\n  share_leaders: 4\nsettings:\n  a.b: true\n", "cluster.yaml"
    )
    assert (toml.serve, toml.up, toml.configs) == (yaml.serve, yaml.up, yaml.configs)
    assert toml.configs == {"a.b": "true"}
    assert written(tmp_path, "", "empty.yml").serve == {}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("x.toml", "a = ", "is not TOML"),
        ("x.yaml", "a: [", "is not YAML"),
        ("x.yaml", "- a", "holds no mapping"),
        ("x.toml", "up = 3", "up in .* is no table"),
    ],
)
def test_malformed_files_are_refused(tmp_path, name, text, expected) -> None:
    with pytest.raises(StartError, match=expected):
        written(tmp_path, text, name)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(StartError, match=r"cannot read .*gone\.toml"):
        read_file(tmp_path / "gone.toml")


def test_up_counts_processes_of_each_role(tmp_path) -> None:
    up = up_settings({"base_port": "0"}, written(tmp_path, "[up]\nshare_leaders = 5"))
    assert [up.count(role) for role in Role] == [2, 5, 2, 1]
    assert up.base_port == 0
