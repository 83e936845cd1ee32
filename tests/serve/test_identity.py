"""Who has a name, and how the processes of a cluster are known to each other (BND-2)."""

import os
import stat
from pathlib import Path
from random import Random

import pytest

from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.process.identity import Identity, with_secret
from sharemesh.serve.settings.settings import ServeSettings
from tests.clocks import ManualClock

CERTIFICATES = {
    "tls_certificate": Path("node.crt"),
    "tls_key": Path("node.key"),
    "tls_authority": Path("ca.crt"),
}
ONE_WAY = {**CERTIFICATES, "tls_client_certificates": "none"}


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("given", "have_names"),
    [
        ({}, False),
        (ONE_WAY, False),
        (CERTIFICATES, True),
        ({"principal_header": "x-user"}, True),
        ({**ONE_WAY, "principal_header": "x-user"}, True),
    ],
)
def test_callers_have_names_if_they_must_show_certificates_or_a_proxy_names_them(given, have_names):
    assert ServeSettings(**given).callers_have_names is have_names


@pytest.mark.parametrize("given", [{}, ONE_WAY])
def test_a_local_cluster_without_client_certificates_has_a_secret(directory, given):
    settings = with_secret(ServeSettings(**given), directory, Random(1))
    assert settings.cluster_secret_file == directory / "run" / "cluster-secret"
    [(_, secret)] = Identity(settings, Random(2), ManualClock()).headers
    again = with_secret(ServeSettings(**given), directory, Random(3))
    assert (
        Identity(again, Random(4), ManualClock()).headers[0][1] == secret
    )  # as those that run already know it


def test_processes_that_must_show_certificates_have_no_secret(directory):
    assert with_secret(ServeSettings(**CERTIFICATES), directory, Random(1)) == ServeSettings(
        **CERTIFICATES
    )


def test_access_rules_need_a_secret_where_nobody_shows_a_certificate():
    rules = {"authorizer": "acl", "etcd_endpoints": ("a:1",), "super_users": ("User:node",)}
    with pytest.raises(StartError, match="must know each other") as refused:
        Identity(ServeSettings(**rules, **ONE_WAY), Random(1), ManualClock())
    assert refused.value.code is ExitCode.SETTINGS
    Identity(ServeSettings(**rules, **CERTIFICATES), Random(1), ManualClock())


def test_an_empty_secret_file_counts_as_absent(directory):
    path = directory / "run" / "cluster-secret"
    path.touch()
    settings = with_secret(ServeSettings(), directory, Random(1))
    assert Identity(settings, Random(2), ManualClock()).headers


def test_a_secret_file_is_whole_and_private_or_not_there(directory, monkeypatch):
    path = directory / "run" / "cluster-secret"

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            with_secret(ServeSettings(), directory, Random(1))
    assert not path.exists()
    before = os.umask(0)
    try:
        with_secret(ServeSettings(), directory, Random(1))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["cluster-secret"]
