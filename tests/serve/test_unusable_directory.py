"""A data directory that cannot be used: the message says what to do."""

import pytest

from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.supervise.data_directory import make_writable


def test_one_that_is_a_file_is_told_as_such(tmp_path):
    taken = tmp_path / "data"
    taken.touch()
    with pytest.raises(StartError, match="it is a file; set data_directory") as refused:
        make_writable(taken)
    assert refused.value.code is ExitCode.DIRECTORY_UNUSABLE
