"""BND-5: which etcd ``sharemesh up`` starts."""

import pytest

from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.sources import ConfigFile, up_settings
from sharemesh.serve.supervise.etcd_process import place_etcd
from tests.etcd_server import etcd_binary


def test_bnd_5_without_the_setting_it_is_the_wheels(tmp_path):
    assert place_etcd(tmp_path, 0).binary == etcd_binary()


def test_bnd_5_the_program_that_the_setting_names_is_started(tmp_path):
    program = tmp_path / "my-etcd"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    settings = up_settings({"etcd_program": str(program)}, ConfigFile())
    place = place_etcd(tmp_path, 0, settings.etcd_program)
    assert str(program) in place.command()
    assert str(etcd_binary()) not in place.command()


@pytest.mark.parametrize("what", ["absent", "directory", "text"])
def test_bnd_5_what_cannot_be_run_is_refused_with_what_to_do(tmp_path, what):
    program = tmp_path / what
    if what == "directory":
        program.mkdir()
    elif what == "text":
        program.write_text("no program")
    with pytest.raises(StartError, match="name the etcd program itself") as refused:
        place_etcd(tmp_path, 0, program)
    assert refused.value.code is ExitCode.SETTINGS
    assert str(program) in refused.value.message
